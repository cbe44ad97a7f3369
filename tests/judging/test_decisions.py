"""The ways to decide: what each adds to a request, and how its answer is read."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judged import ENVIRONMENT, dense_plan, judge_config
from pools import make_pool
from wire_server import Reply, WireServer, same_item
from youden.errors import ConfigError
from youden.judging.backend_records import BACKENDS
from youden.judging.config.judge_files import load_judge_config
from youden.judging.engine import judge_plan
from youden.judging.question.parsing import label_odds, read_answer, spoken_for
from youden.judging.question.prompts import load_prompt
from youden.judging.store.answers import open_store
from youden.nouns import Completion

SAME = load_prompt("same-source")
GAIN = load_prompt("information-gain")
POOL = make_pool(3, 4)
PLAN = dense_plan(POOL)


def said(text: str, *, odds: dict[str, float] | None = None, finish: str = "stop") -> Completion:
    top = tuple((token, math.log(share)) for token, share in (odds or {}).items())
    return Completion(text, finish, "m", 1, 1, top_logprobs=top)


def tokens(odds: dict[str, float]) -> dict[str, Any]:
    top = [{"token": token, "logprob": math.log(share)} for token, share in odds.items()]
    return {"content": [{"token": top[0]["token"], "logprob": top[0]["logprob"], "top_logprobs": top}]}


@pytest.mark.parametrize(
    ("text", "answer"), [('{"answer": "YES"}', 1), (' {"answer":"NO"}\n', 0), ('{"answer": "NO", "why": "x"}', 0)]
)
def test_a_json_answer_is_its_label(text: str, answer: float) -> None:
    assert read_answer(said(text), SAME, decision="json").answer == answer


@pytest.mark.parametrize("text", ["YES", '{"answer": "MAYBE"}', '{"answer": true}', "[]", '{"no": "YES"}', "", '"YES"'])
def test_what_is_no_such_object_is_missing(text: str) -> None:
    assert read_answer(said(text), SAME, decision="json").missing == "unparsed"


def test_a_json_answer_that_was_cut_off_is_truncated() -> None:
    assert read_answer(said('{"answer": "Y', finish="length"), SAME, decision="json").missing == "truncated"


def test_log_probabilities_give_p_yes_and_keep_the_hard_decision() -> None:
    reading = read_answer(said("NO", odds={"NO": 0.6, "YES": 0.2, " yes": 0.1, "Not": 0.1}), SAME, decision="logprobs")
    assert reading.answer == pytest.approx(0.3 / 0.9)
    assert reading.hard == 0
    sure = read_answer(said("YES", odds={"YES": 1.0}), SAME, decision="logprobs")
    assert (sure.answer, sure.hard) == (1, 1)


def test_grades_are_weighted_by_the_odds_of_their_labels_first_tokens() -> None:
    odds = {"SIGN": 0.5, "LIT": 0.4, "NO": 0.1}
    reading = read_answer(said("SIGN", odds=odds, finish="length"), GAIN, decision="logprobs")
    assert reading.answer == pytest.approx(0.5 + 0.25 * 0.4)
    assert reading.hard == 1


@pytest.mark.parametrize(
    "completion", [said("YES"), said("YES", odds={"The": 0.9}), said("The", odds={"The": 0.9, "YES": 0.1})]
)
def test_without_odds_or_without_a_label_there_is_no_answer(completion: Completion) -> None:
    assert read_answer(completion, SAME, decision="logprobs").missing == "unparsed"


@pytest.mark.parametrize(
    ("token", "label"), [("Y", "YES"), (" no", "NO"), ("**No", "NO"), ("Not", None), ("Yesterday", None), (" ", None)]
)
def test_a_token_speaks_for_the_label_it_begins(token: str, label: str | None) -> None:
    assert spoken_for(token, ("YES", "NO")) == label


def test_a_token_that_begins_two_labels_speaks_for_none() -> None:
    assert spoken_for("N", ("NO", "NOT AT ALL")) is None
    assert spoken_for("NO", ("NO", "NOT AT ALL")) == "NO"


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["YES", "NO", "y", "x", ""]), st.floats(-30, 0)), max_size=6))
def test_odds_are_shares_or_nothing(top: list[tuple[str, float]]) -> None:
    odds = label_odds(top, ("YES", "NO"))
    spoken = [token for token, _ in top if token in ("YES", "NO", "y")]
    assert (odds is None) == (not spoken)
    if odds is not None:
        assert math.fsum(odds.values()) == pytest.approx(1)
        assert min(odds.values()) >= 0


@pytest.mark.parametrize("backend", [name for name, one in BACKENDS.items() if one.batches])
@pytest.mark.parametrize("decision", ["text", "json", "logprobs"])
async def test_each_way_is_asked_for_on_the_wire_and_read_back(tmp_path: Path, backend: str, decision: str) -> None:
    def behave(_n: int, body: Any) -> Reply:
        label = same_item(body)
        if decision == "json":
            schema = body["response_format"]["json_schema"]["schema"]
            assert schema["properties"]["answer"]["enum"] == ["YES", "NO"]
            assert body["messages"][-1]["content"].endswith('{"answer":"YES"} or {"answer":"NO"}.')
            assert body["max_tokens"] == 32
            return Reply(f'{{"answer": "{label}"}}')
        if decision == "logprobs":
            assert (body["logprobs"], body["top_logprobs"], body["max_tokens"]) == (True, 5, 1)
            return Reply(label, logprobs=tokens({label: 0.9, "NO" if label == "YES" else "YES": 0.1}))
        assert "logprobs" not in body
        assert "response_format" not in body
        return Reply(label)

    async with WireServer(behave) as server:
        config = judge_config(server.url, backend=backend, decision=decision)
        with open_store(tmp_path / "v.db") as store:
            result = await judge_plan(PLAN, POOL, config=config, store=store, environment=ENVIRONMENT)
    truth = (PLAN.arm == 0).astype(float)
    np.testing.assert_array_equal(result.hard, truth)
    np.testing.assert_allclose(result.answer, np.where(truth == 1, 0.9, 0.1) if decision == "logprobs" else truth)
    assert (result.judge["decision"], result.judge["parser"]) == (
        decision,
        {"text": "label/1"}.get(decision, f"{decision}/1"),
    )


def test_the_way_to_decide_is_part_of_the_signature_and_an_unknown_one_is_refused() -> None:
    plain, json = (load_judge_config({"backend": "wire", "model": "m", "decision": one}) for one in ("text", "json"))
    assert plain.describe() != json.describe()
    assert load_judge_config(plain.public()).describe() == plain.describe()
    assert load_judge_config(json.public()).describe() == json.describe()
    with pytest.raises(ConfigError, match="'text', 'json' or 'logprobs'"):
        load_judge_config({"backend": "wire", "model": "m", "decision": "dice"})
