"""Sends a judge one call and says what came of it: key, reachability, model, parse, log-probabilities, price, latency.

It asks the real server even where a cassette is inserted. It shows no secret, does not try again and keeps no answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace

from youden.errors import YoudenError
from youden.judging.backend_records import backend_of, calling_judge
from youden.judging.call.connection import Connection
from youden.judging.call.failures import CallError, ends_the_run
from youden.judging.config.judge_files import JudgeConfig, price
from youden.judging.question.parsing import TOP_LOGPROBS
from youden.judging.scheduler.calling import within
from youden.text.reasoning import split_reasoning
from youden.types import Completion, Finding
from youden.types.finding import Severity

STEPS = ("key", "reach", "model", "parse", "logprobs", "price", "latency")
FIRST = "The ferry to the island was cancelled on Tuesday because of a storm, and 40 passengers spent the night in a school."
SECOND = "A storm stopped Tuesday's ferry; forty people who had meant to cross slept in a schoolhouse on the mainland."

_NOT_UNDERSTOOD = (400, 422)
_SHOWN = 60
_NO_REASONING = (
    "Start the server with a reasoning parser (vLLM, SGLang: `--reasoning-parser`) or turn reasoning off (Ollama: "
    "`think: false`)."
)


@dataclass(frozen=True)
class Diagnosis:
    """What is known of one judge after one call, a finding each of `STEPS`.

    A warning is what a run can do without, `failed` what it cannot.
    """

    judge: str
    findings: tuple[Finding, ...]

    @property
    def usable(self) -> bool:
        """Whether a run could use the judge."""
        return all(finding.severity != "failed" for finding in self.findings)


def diagnose(config: JudgeConfig, *, environment: Mapping[str, str]) -> list[Diagnosis]:
    """One call to the judge at each of its servers, or to every judge of a jury; a second one only where the first was turned
    down for asking for log-probabilities. What does not get as far is `skipped`."""
    return asyncio.run(_all(config.judges or (config,), environment))


async def _all(judges: tuple[JudgeConfig, ...], environment: Mapping[str, str]) -> list[Diagnosis]:
    diagnoses = []
    for judge in judges:
        for one in judge.servers:
            name = judge.name if one is judge else f"{judge.name} at {one.address}"
            diagnoses.append(Diagnosis(name, await _examined(one, environment)))
    return diagnoses


async def _examined(config: JudgeConfig, environment: Mapping[str, str]) -> tuple[Finding, ...]:
    if not config.makes_calls:
        return (_found("key", "ok", f"'{config.backend}' makes no calls: it needs neither a key nor a network"),)
    try:
        connection = config.connection(environment)
    except YoudenError as error:
        return _with_the_rest_skipped(_found("key", "failed", error.message))
    _, where = config.key_found(environment)
    said = f"{config.key_variable} is set in {where}" if connection.api_key else "none is sent"
    key = _found("key", "ok", said)
    try:
        completion, offered = await _asked(config, connection)
    except CallError as error:
        where = config.address or "its provider"
        said = ends_the_run(error, judge=config.name, address=where).message
        failed = "key" if error.status in (401, 403) else "reach"
        return _with_the_rest_skipped(*(() if failed == "key" else (key,)), _found(failed, "failed", said))
    return (
        key,
        _found("reach", "ok", f"{config.address or 'its provider'} answers"),
        _model(config, completion),
        _parse(config, completion),
        _logprobs(config, completion, offered=offered),
        _price(config, completion),
        _found("latency", "ok", f"{completion.seconds:.2f} s for one call"),
    )


async def _asked(config: JudgeConfig, connection: Connection) -> tuple[Completion, bool]:
    """The reply, and whether the model took a request for log-probabilities."""
    questions = config.questions()
    plain = questions.about(FIRST, SECOND)
    probing = replace(plain, parameters={"logprobs": True, "top_logprobs": TOP_LOGPROBS, **plain.parameters})
    judge = calling_judge(config.backend, connection)
    try:
        if "logprobs" in backend_of(config.backend).refuses:
            return await within(config.timeout, judge.answer(plain)), False
        try:
            return await within(config.timeout, judge.answer(probing)), True
        except CallError as error:
            if error.status not in _NOT_UNDERSTOOD or probing.parameters == plain.parameters:
                raise
        return await within(config.timeout, judge.answer(plain)), False
    finally:
        if hasattr(judge, "aclose"):
            await judge.aclose()


def _found(step: str, severity: Severity, says: str) -> Finding:
    return Finding(step, says, severity=severity)


def _with_the_rest_skipped(*findings: Finding) -> tuple[Finding, ...]:
    there = {finding.slug for finding in findings}
    rest = STEPS[max(STEPS.index(step) for step in there) + 1 :]
    return (*findings, *(_found(step, "skipped", "not reached") for step in rest))


def _model(config: JudgeConfig, completion: Completion) -> Finding:
    served = completion.model or "a model that does not give its name"
    build = f" ({completion.fingerprint})" if completion.fingerprint else ""
    same = completion.model.startswith((config.model or "").rpartition("/")[2])
    says = f"{served}{build} answers" if same else f"{config.model} was asked for and {served}{build} answers"
    return _found("model", "ok" if same else "warning", says)


def _parse(config: JudgeConfig, completion: Completion) -> Finding:
    reading = config.questions().read(completion)
    shown = repr(completion.text[:_SHOWN])
    answer, reasoned = split_reasoning(completion.text)
    if reading.missing == "unfinished_reasoning":
        return _found(
            "parse",
            "failed",
            f"{shown} is reasoning that does not end, so there is no answer (finish reason '{completion.finish_reason}', "
            f"{completion.tokens_out:,} tokens). {_NO_REASONING} Or raise max_tokens, so that the reasoning can end.",
        )
    if reading.missing == "answered" and reasoned:
        fact = f"{(answer or '').strip()[:_SHOWN]!r} reads as {reading.answer:.3g}, but the reply contains reasoning before it"
        return _found("parse", "warning", f"{fact}: {completion.tokens_out:,} tokens are paid for. {_NO_REASONING}")
    if reading.missing == "answered":
        return _found("parse", "ok", f"{shown} reads as {reading.answer:.3g}")
    return _found(
        "parse",
        "failed",
        f"{shown} is {reading.missing} (finish reason '{completion.finish_reason}'). "
        "Raise max_tokens, change the prompt or `decision`, or take another model.",
    )


def _logprobs(config: JudgeConfig, completion: Completion, *, offered: bool) -> Finding:
    n = len(completion.top_logprobs)
    if n:
        return _found("logprobs", "ok", f"offered: {n} alternatives for the first token (`decision: logprobs` works)")
    says = "the model gives none" if offered else "the model turns a request for them down"
    return _found("logprobs", "failed" if config.decision == "logprobs" else "warning", says)


def _price(config: JudgeConfig, completion: Completion) -> Finding:
    usd = price(config, completion.tokens_in, completion.tokens_out)
    if config.price_in is None or config.price_out is None:
        return _found(
            "price", "warning", "unknown; a run with max_cost needs price_in and price_out (`price: 0` is known)"
        )
    used = f"{completion.tokens_in:,} tokens in and {completion.tokens_out:,} out cost ${usd:.6f}"
    rates = f"${config.price_in:g} in and ${config.price_out:g} out per million tokens, by {config.price_source}"
    return _found("price", "ok", f"{used} ({rates})")
