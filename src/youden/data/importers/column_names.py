"""Infer the role of a column from its name: agent, item, text, prompt, group, empty or repeat.

A name only proposes a role; `column_roles` decides by the values of the column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

ROLES = ("agent", "item", "text", "prompt", "group", "empty", "repeat")
"""Roles that `--column` accepts. A column `empty` marks responses that are empty on purpose."""


def make_word_set(*lines: str) -> frozenset[str]:
    """Return the set of the words in lines of words that are separated by spaces."""
    return frozenset(" ".join(lines).split())


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
            "topic text task messages contents history conversations conversation contexts documents nachricht betreff "
            "q frage kundenfrage anfrage pregunta consulta demande domanda pergunta 質問 問い合わせ お問い合わせ 问题 提问 "
            "ticket message body context background title"
        ),
        "group": "group family",
        "empty": "empty empty_answer answer_is_empty",
        "repeat": "repeat epoch repetition_number",
    }.items()
}
"""Usual names of columns by role, the most reliable first."""
_ROLE_OF_REFERENCE = {"text": "about", "prompt": "item", "item": "item", "agent": "agent"}
"""Role of an id or a name by the role of what it refers to: the id of a prompt identifies an item."""
_PREPOSITION = re.compile(r"_(?:of|von|de[lrs]?|du|d[aio]s?|della)_")
"""Word after the noun that decides the role, as in "respuesta del bot"."""
_ENDINGS = {"prompt": ("frage", "質問", "問い合わせ", "问题"), "text": ("antwort", "回答", "回复", "返信")}
"""Last parts of compound words by role, in languages that write compounds without a space."""
_GENERIC = make_word_set("text content body id name string value full messages contents parts")
"""Last parts of a path that propose a role only together with the part before."""
ABOUT = make_word_set(
    "expected reference gold golden ground truth correct label score scores rating grade rank pass metric judge eval",
    "role cost price usd latency tokens time timestamp date created duration seconds temperature seed status error url",
    "comment comments note notes feedback reviewer category tag tags split system_prompt system_message event_id",
    "winner preference chosen choice decision why",
    "reason explanation rationale judgment judgement verdict critique object usage type kind level mime",
    "ideal evaluator annotator rater assessor musterlösung musterantwort referenzantwort attendue référence esperada",
    "referencia 模範解答 正解 参考答案 标准答案",
    "kommentar bemerkung notiz bewertung datum comentario commentaire remarque nota 备注 コメント 評価 评分",
)
"""Words for information about an item or a response, such as its score, cost or date."""
REMARKS = make_word_set(
    "comment comments remark remarks note notes feedback explanation rationale justification critique",
    "kommentar bemerkung notiz comentario commentaire remarque nota 备注 コメント",
)
"""Last words of names for remarks on responses, which may be written as sentences like the responses themselves."""
PARTS = make_word_set("raw parsed extracted clean cleaned normalized reasoning thinking thought thoughts tool")
"""Words for a part or a different form of a response."""
SUBJECTS = make_word_set(
    "subject topic category subcategory domain discipline field theme chapter course exam split subset dataset corpus",
    "benchmark suite scenario collection language lang locale",
)
"""Words for groups of items. A column with such a name never holds agents."""
REPEAT_NUMBERS = make_word_set(
    "repeat repetition replicate rep sample epoch seed run trial attempt iteration iter try draw"
)
"""Words for the number of a repeat."""
ASKERS = make_word_set("user session thread customer account project client ticket kunde kunden cliente usuario email")
"""Words for the author of a question."""
_MESSAGE_WORDS = make_word_set("text message body mail content says wrote writes asks asked schreibt fragt schrieb")
"""Words that name a question if the name also has a word for its author."""
_ROLE_BY_NAME = {name: role for role, names in reversed(list(NAMES.items())) for name in names}
"""Role by usual name: the first one in `NAMES`, if several have the name."""
LAST_ANSWER = "[-1].content"
"""Suffix of the path to the last message of a conversation, which is a response."""
PAIRED = re.compile(r"(model|agent|generator|assistant)_?(name|id)?_(a|b|1|2|left|right)")
"""Names of columns that may hold the models of two responses in one row."""
_MAX_CACHED_NAMES = 2**18
"""Number of names whose normalized form and role are cached: each column of a wide table is examined about ten
times."""


@lru_cache(_MAX_CACHED_NAMES)
def normalize_name(column: str) -> str:
    """Convert a name to lower case with words joined by underscores.

    >>> normalize_name("Model Name "), normalize_name("actualOutput")
    ('model_name', 'actual_output')
    """
    with_word_breaks = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", column)
    return re.sub(r"[^\w#]+", "_", with_word_breaks.casefold()).strip("_")


def split_path(column: str) -> list[str]:
    """Split a path such as `choices[0].text` into normalized names, at least one."""
    parts = [normalize_name(part) for part in re.split(r"\.|\[-?\d*\]", column) if part.strip()]
    return parts or [normalize_name(column)]


def split_into_words(column: str) -> set[str]:
    """Return the words of a name, the same words without a plural s, and the normalized name itself.

    >>> sorted(split_into_words("Source files"))
    ['file', 'files', 'source', 'source_files']
    """
    name = normalize_name(column)
    words = name.split("_")
    return {name, *words, *(word.removesuffix("s") for word in words)}


@lru_cache(_MAX_CACHED_NAMES)
def infer_role(column: str) -> str | None:
    """Infer the role of a column, such as "agent" or "prompt", from its name or from the path to a value inside it.

    The last part of the path usually decides. It is joined with the part before it in two cases:

    - The last part is generic, for example `text` or `id`.
    - Both parts form a usual name, such as "user_input" for the path `user.input`.

    Returns one of `ROLES`, or None if the name suggests no role. The result is "about" if a part of the path denotes
    information about items or responses, such as a score.

    >>> infer_role("Question text"), infer_role("Model response"), infer_role("Expected answer"), infer_role("gpt-4")
    ('prompt', 'text', 'about', None)
    >>> infer_role("attributes.input.value"), infer_role("choices[].message.content"), infer_role("request_id")
    ('prompt', 'text', 'item')
    >>> infer_role("User message"), infer_role("Kundenfrage"), infer_role("Respuesta del bot")
    ('prompt', 'prompt', 'text')
    """
    parts = split_path(column)
    if any(map(_is_information, parts)):
        return "about"
    if "[]" in column and parts[-1] == "index":  # number of an element in a list of responses
        return "repeat"
    if column.endswith(LAST_ANSWER):
        return "text"
    joined_parts = "_".join(parts[-2:])
    needs_part_before = parts[-1] in _GENERIC or joined_parts in _ROLE_BY_NAME
    return _infer_role_of_name(joined_parts if needs_part_before else parts[-1])


def _is_information(name: str) -> bool:
    """Return whether a normalized name refers to information about a response or an item, such as its score or its date."""
    has_word = not ABOUT.isdisjoint(name.split("_")) and not name.endswith("_id")
    return name in ABOUT or has_word


def _infer_role_of_name(name: str) -> str | None:
    """Infer the role of a column from one normalized name, such as "question_text".

    If the name begins with a usual name of responses or prompts and a preposition, as "respuesta_del_bot" does, the rest is
    ignored. The first of these rules that applies decides:

    1. The name is a usual name (`NAMES`).
    2. The name ends with "id" or "name". The role depends on the other words: "prompt_id" identifies an item, and
       "model_name" an agent. The id of a response is only information ("about"). If the other words are unknown, an id
       identifies an item, and a name identifies an agent.
    3. A name with words for the author of a question and for a message, such as "customer_message", is a prompt.
    4. A generic last word, such as "text" in "question_text", is ignored if the other words have a role.
    5. The last word is a usual name, or the name ends like a compound word, such as "frage" in "kundenfrage".

    Returns one of `ROLES`, or "about" for the id of a response; None if the name is not known.
    """
    noun = _PREPOSITION.split(name)[0]
    if noun not in _GENERIC | _MESSAGE_WORDS and _ROLE_BY_NAME.get(noun) in ("text", "prompt"):
        name = noun
    if name in _ROLE_BY_NAME:  # rule 1
        return _ROLE_BY_NAME[name]
    words_before, _, last_word = name.rpartition("_")
    role_before = _infer_role_of_name(words_before) if words_before else None
    if words_before and last_word in ("id", "name"):  # rule 2
        if role_before in _ROLE_OF_REFERENCE:
            return _ROLE_OF_REFERENCE[role_before]
        return "item" if last_word == "id" else "agent"

    words = set(name.split("_"))
    if ASKERS & words and _MESSAGE_WORDS & words:  # rule 3
        return "prompt"
    if last_word in _GENERIC and role_before is not None:  # rule 4
        return role_before
    role_of_ending = next((role for role, endings in _ENDINGS.items() if name.endswith(endings)), None)
    return _ROLE_BY_NAME.get(last_word, role_of_ending)  # rule 5


def is_part_of_response(column: str) -> bool:
    """Return whether a column holds a part or a different form of a response, judged by its name.

    >>> is_part_of_response("raw_response"), is_part_of_response("response")
    (True, False)
    """
    return not PARTS.isdisjoint(split_into_words(column))


def get_name_priority(column: str, role: str) -> int:
    """Return how usual the name of a column is for a role, as a rank: 0 is the most likely candidate.

    The ranks follow this order:

    1. the usual names of the role, in the order of `NAMES`;
    2. names whose last or first word is a usual name;
    3. all other names;
    4. ids of agents.

    column : name of the column, or path to a value in it
    role : one of `ROLES`
    """
    name = split_path(column)[-1]
    words = name.split("_")
    usual_names = NAMES[role]
    if role == "prompt" and not ASKERS.isdisjoint(words):  # such as "user_message"
        return usual_names.index("question")

    n_usual = len(usual_names)
    usual_parts = [part for part in (name, words[-1], words[0]) if part in usual_names]
    position = usual_names.index(usual_parts[0]) if usual_parts else n_usual

    # positions are at most n_usual, so each group of names comes after the group before it
    if role == "agent" and words[-1] == "id":
        return position + 2 * n_usual
    return position if name in usual_names else position + n_usual


def is_about_responses(column: str) -> bool:
    """Return whether a name only denotes information about responses, such as "Expected answer".

    Any other word, such as "baseline", may name an agent. The result is then False.

    >>> is_about_responses("reference_outputs"), is_about_responses("baseline_reference"), is_about_responses("judge bot")
    (True, False, False)
    """
    words = set(normalize_name(column).split("_"))
    singular_nouns = {*NAMES["text"], *NAMES["prompt"]}  # such as "answer"
    plural_nouns = {f"{noun}s" for noun in singular_nouns}
    neutral_words = _GENERIC | singular_nouns | plural_nouns | {"id"}
    has_word_about_responses = not words.isdisjoint(ABOUT)
    return has_word_about_responses and words <= ABOUT | neutral_words


def is_agent_name(column: str) -> bool:
    """Return whether the name of a column explicitly refers to models or agents.

    >>> is_agent_name("providedModelName"), is_agent_name("name"), is_agent_name("modelParameters.top_p")
    (True, False, False)
    """
    words = split_path(column)[-1].split("_")
    return infer_role(column) == "agent" and not {"agent", "model", "generator", "llm"}.isdisjoint(words)
