"""Tells from the name of a column which role it may have: agent, item, text, prompt, group, empty or repeat.

A name only proposes a role; `column_roles` decides by the values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

ROLES = ("agent", "item", "text", "prompt", "group", "empty", "repeat")
"""What `--column` may name. `empty` says that an empty response was given."""


def _vocabulary(*words: str) -> frozenset[str]:
    return frozenset(" ".join(words).split())


NAMES: Mapping[str, tuple[str, ...]] = {
    role: tuple(names.split())
    for role, names in {
        "agent": (
            "agent model model_name model_id generator system assistant bot prompt_version prompt_name version "
            "variant candidate engine deployment llm config configuration provider run experiment author name completion_fns "
            "modell modelo modèle modele modello assistent asistente variante sistema système systeme モデル システム "
            "アシスタント ボット 模型 系统 助手 机器人"
        ),
        "item": (
            "item item_id question_id prompt_id task_id example_id instance_id doc_id query_id sample_id "
            "test_id input_id qid custom_id uid uuid case id number no nr index row key task ticket_id nummer número numero "
            "番号 编号"
        ),
        "text": (
            "response output answer completion generation prediction reply result summary translation text "
            "content message sampled antwort respuesta réponse reponse risposta resposta 回答 返信 応答 回复 答复 答案"
        ),
        "prompt": (
            "prompt question instruction input query user_input request problem source document article passage "
            "topic text task messages contents history conversations conversation q frage kundenfrage anfrage pregunta "
            "consulta demande domanda pergunta 質問 問い合わせ お問い合わせ 问题 提问 "
            "ticket message body context background title"
        ),
        "group": "group family",
        "empty": "empty empty_answer answer_is_empty",
        "repeat": "repeat epoch repetition_number",
    }.items()
}
"""Usual names of columns by role, the surest first."""
_ENDINGS = {"prompt": ("frage", "質問", "問い合わせ", "问题"), "text": ("antwort", "回答", "回复", "返信")}
"""Endings of compound words in languages that write them without a space."""
_GENERIC = _vocabulary("text content body id name string value full messages contents parts")
"""Last parts of a path that say little by themselves."""
ABOUT = _vocabulary(
    "expected reference gold golden ground truth correct label score scores rating grade rank pass metric judge eval",
    "role cost price usd latency tokens time timestamp date created duration seconds temperature seed status error url",
    "comment comments note notes feedback reviewer category tag tags split system_prompt system_message event_id",
    "winner preference chosen choice decision why",
    "reason explanation rationale judgment judgement verdict critique object usage type kind level mime",
    "kommentar bemerkung notiz bewertung datum comentario commentaire remarque nota 备注 コメント 評価 评分",
)
"""Words for what is known of an item or a response."""
SUBJECTS = _vocabulary(
    "subject topic category subcategory domain discipline field theme chapter course exam split subset dataset corpus",
    "benchmark suite scenario collection language lang locale",
)
"""Words for groups of items, which never name an agent."""
ASKERS = _vocabulary("user session thread customer account project client ticket kunde kunden cliente usuario email")
"""Words for who asked, perhaps more than once."""
_SAYING = _vocabulary("text message body mail content says said wrote writes asks asked schreibt fragt schrieb")
"""Words that, beside a word for who asked, name a question."""
_ALL_NAMES = frozenset(name for names in NAMES.values() for name in names)
LAST_ANSWER = "[-1].content"
"""End of the path to the last message of a conversation, which is a response."""
PAIRED = re.compile(r"(model|agent|generator|assistant)_?(name|id)?_(a|b|1|2|left|right)")
"""Names of columns that may name the models of two responses in one row."""


def plain_name(column: str) -> str:
    """Return a name in lower case, with words joined by `_`.

    >>> plain_name("Model Name "), plain_name("actualOutput")
    ('model_name', 'actual_output')
    """
    return re.sub(r"[^\w#]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", column).casefold()).strip("_")


def path_parts(column: str) -> list[str]:
    """Return the plain names along a path, at least one."""
    return [plain_name(part) for part in re.split(r"\.|\[-?\d*\]", column) if part.strip()] or [plain_name(column)]


def words_of(column: str) -> set[str]:
    """Split the name of a column into words, also without the s of a plural.

    >>> sorted(words_of("Source files"))
    ['file', 'files', 'source', 'source_files']
    """
    name = plain_name(column)
    return {name, *name.split("_"), *(word.removesuffix("s") for word in name.split("_"))}


def role_of_name(column: str) -> str | None:
    """Return the role that a name proposes, "about" for what is known of responses, or None.

    A last part that says little, such as `text` or `id`, counts together with the one before.

    >>> role_of_name("Question text"), role_of_name("Model response"), role_of_name("Expected answer"), role_of_name("gpt-4")
    ('prompt', 'text', 'about', None)
    >>> role_of_name("attributes.input.value"), role_of_name("choices[].message.content"), role_of_name("request_id")
    ('prompt', 'text', 'item')
    >>> role_of_name("User message"), role_of_name("Kundenfrage"), role_of_name("message du client")
    ('prompt', 'prompt', 'prompt')
    """
    parts = path_parts(column)
    if any(part in ABOUT or (ABOUT & set(part.split("_")) and not part.endswith("_id")) for part in parts):
        return "about"
    if "[]" in column and parts[-1] == "index":
        return "repeat"
    if column.endswith(LAST_ANSWER):
        return "text"
    joined = "_".join(parts[-2:])
    if len(parts) == 1 or parts[-1] not in _GENERIC or joined in _ALL_NAMES:
        return _role_of_part(joined if joined in _ALL_NAMES else parts[-1])
    return _role_of_reference(_role_of_part(parts[-2]), parts[-1]) or _role_of_part(parts[-1])


def _role_of_part(name: str) -> str | None:
    first, _, rest = name.partition("_")
    last = rest.rpartition("_")[2]
    if last in ("id", "name") and name not in _ALL_NAMES:
        return _role_of_reference(_role_of_part(first), last)
    if rest and ASKERS & {*name.split("_")} and _SAYING & {*name.split("_")}:
        return "prompt"
    words = (name, *([first] if last in _GENERIC else []), last)
    named = next((role for word in words for role, names in NAMES.items() if word in names), None)
    return named or next((role for role, ends in _ENDINGS.items() if name.endswith(ends)), None)


def _role_of_reference(role: str | None, last: str) -> str | None:
    """Return the role of a name that ends in `last`, if what comes before has `role`: the id of a response names no item."""
    if last not in ("id", "name"):
        return role
    return {"text": "about", "prompt": "item", "item": "item", "agent": "agent"}.get(
        role or "", "item" if last == "id" else "agent"
    )


def name_order(column: str, role: str) -> int:
    """Return how sure a name is for a role; 0 is surest."""
    name, names = path_parts(column)[-1], NAMES[role]
    words = name.split("_")
    if role == "prompt" and ASKERS & {*words}:
        return names.index("question")
    is_id = role == "agent" and words[-1] == "id"  # a name says more
    return next((names.index(one) for one in (name, words[-1], words[0]) if one in names), len(names)) + (
        2 * len(names) if is_id else 0 if name in names else len(names)
    )


def is_about_responses(column: str) -> bool:
    """Return whether all words of a name are about responses or generic: "Expected answer", but not "baseline reference".

    >>> is_about_responses("Expected answer"), is_about_responses("baseline_reference"), is_about_responses("judge bot")
    (True, False, False)
    """
    words = set(plain_name(column).split("_"))
    return bool(words & ABOUT) and words <= ABOUT | _GENERIC | {*NAMES["text"]} | {*NAMES["prompt"]} | {"id"}


def names_agents_surely(column: str) -> bool:
    """Return whether a name says that a column names models or agents.

    >>> names_agents_surely("providedModelName"), names_agents_surely("name"), names_agents_surely("modelParameters.top_p")
    (True, False, False)
    """
    return role_of_name(column) == "agent" and not {"agent", "model", "generator", "llm"}.isdisjoint(
        path_parts(column)[-1].split("_")
    )
