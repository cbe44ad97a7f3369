"""Test a judge with one call: API key, connection, model, parsing, log-probabilities, price and latency.

The call goes to the real server even if a cassette is active. It is not retried, its answer is not stored, and no
secret is displayed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace

from youden.errors import YoudenError
from youden.judging.backend_records import get_backend_record, make_calling_judge
from youden.judging.call.connection import Connection
from youden.judging.call.failures import CallError, to_judge_error
from youden.judging.config.judge_files import JudgeConfig, call_cost
from youden.judging.config.price_table import check_price_age, describe_table
from youden.judging.question.parsing import TOP_LOGPROBS
from youden.judging.scheduler.calling import with_timeout
from youden.text.reasoning import split_reasoning
from youden.types import Completion, Finding, Judge, Request
from youden.types.finding import Severity

STEPS = ("key", "reach", "model", "parse", "logprobs", "price", "latency")
_TEXT_A = "The ferry to the island was cancelled on Tuesday because of a storm, and 40 passengers spent the night in a school."
_TEXT_B = "A storm stopped Tuesday's ferry; forty people who had meant to cross slept in a schoolhouse on the mainland."

_REJECTED_STATUSES = (400, 422)
"""Statuses with which servers reject a request for log-probabilities."""
_MAX_DISPLAYED_CHARACTERS = 60
_NO_REASONING = (
    "Start the server with a reasoning parser (vLLM, SGLang: `--reasoning-parser`) or turn reasoning off (Ollama: "
    "`think: false`)."
)


@dataclass(frozen=True)
class Diagnosis:
    """Result of the test of one judge at one server."""

    judge: str
    """Name of the judge, with the server if there are several."""
    findings: tuple[Finding, ...]
    """One finding per step of `STEPS`; the severity of a failed step is "failed" if a run needs it, else "warning"."""

    @property
    def is_usable(self) -> bool:
        """Whether a run can use the judge."""
        return all(finding.severity != "failed" for finding in self.findings)


def diagnose(config: JudgeConfig, *, environment: Mapping[str, str]) -> list[Diagnosis]:
    """Test a judge at each of its servers, or each judge of a jury.

    One call is sent per server, and a second one if the first was rejected because it asked for log-probabilities.

    Parameters
    ----------
    config : JudgeConfig
        Config of the judge that is tested.
    environment : mapping
        Environment variables with the API keys.

    Returns
    -------
    list of Diagnosis
        One per server. Steps after a failure are "skipped".
    """
    return asyncio.run(_diagnose_all(config.judges or (config,), environment))


async def _diagnose_all(judges: tuple[JudgeConfig, ...], environment: Mapping[str, str]) -> list[Diagnosis]:
    """Test each server of each judge, one after another.

    judges : judges to test, each with one or more servers
    environment : environment variables, which contain the API keys
    """
    diagnoses = []
    for judge in judges:
        for server in judge.servers:
            name = judge.name if server is judge else f"{judge.name} at {server.address}"
            diagnoses.append(Diagnosis(name, await _diagnose_server(server, environment)))
    return diagnoses


async def _diagnose_server(config: JudgeConfig, environment: Mapping[str, str]) -> tuple[Finding, ...]:
    """Test whether a judge can be used at one server: look up its API key, send a request, and check the reply.

    config : judge with one server
    environment : environment variables, which contain the API key

    Returns the results as one `Finding` per step of `STEPS`, in this order. If the key or the call fails, the remaining steps
    are marked as skipped. A judge that makes no calls gets a single finding.
    """
    if not config.makes_calls:
        message = f"'{config.backend}' makes no calls: it needs neither a key nor a network"
        return (_make_finding("key", "ok", message),)

    try:
        connection = config.connection(environment)
    except YoudenError as error:
        return _skip_remaining(_make_finding("key", "failed", error.message))
    key_finding = _report_key(config, connection, environment)

    try:
        completion, accepts_logprobs = await _send_test(config, connection)
    except CallError as error:
        return _report_failed_call(config, error, key_finding)
    return (
        key_finding,
        _make_finding("reach", "ok", f"{_get_displayed_address(config)} answers"),
        _check_model(config, completion),
        _check_parsing(config, completion),
        _check_logprobs(config, completion, accepts_logprobs=accepts_logprobs),
        _check_price(config, completion),
        _make_finding("latency", "ok", f"{completion.seconds:.2f} s for one call"),
    )


def _get_displayed_address(config: JudgeConfig) -> str:
    """Return the address of a judge's server for messages; "its provider" if the config contains no address."""
    return config.address or "its provider"


def _report_key(config: JudgeConfig, connection: Connection, environment: Mapping[str, str]) -> Finding:
    """Return a finding that names the source of the API key, or states that no key is sent.

    connection : connection to the judge's server, with the API key that was found
    environment : environment variables in which the key was searched
    """
    if not connection.api_key:
        return _make_finding("key", "ok", "none is sent")
    _, key_source = config.find_key(environment)
    return _make_finding("key", "ok", f"{config.key_variable} is set in {key_source}")


def _report_failed_call(config: JudgeConfig, error: CallError, key_finding: Finding) -> tuple[Finding, ...]:
    """Return the findings on a judge whose test request failed.

    The failed step is "key" if the server rejected the API key (HTTP 401 or 403), and "reach" in all other cases.

    error : failure of the test request
    key_finding : finding on the source of the key, used only if the failed step is "reach"

    Returns one finding per step of `STEPS`; the steps after the failed one are skipped.
    """
    message = to_judge_error(error, judge=config.name, address=_get_displayed_address(config)).message
    if error.status in (401, 403):
        return _skip_remaining(_make_finding("key", "failed", message))
    return _skip_remaining(key_finding, _make_finding("reach", "failed", message))


async def _send_test(config: JudgeConfig, connection: Connection) -> tuple[Completion, bool]:
    """Send a test request that asks for log-probabilities. If it is rejected, send it again without asking for them.

    If the backend is known not to support log-probabilities, only the request without them is sent.

    config : judge with one server
    connection : address, key and settings of the server

    Returns the reply, and whether the server accepted a request for log-probabilities.
    Raises: CallError if the call fails for another reason.
    """
    plain_request = config.questions().request_for_texts(_TEXT_A, _TEXT_B)
    judge = make_calling_judge(config.backend, connection)
    try:
        if "logprobs" not in get_backend_record(config.backend).unsupported:
            completion = await _try_with_logprobs(judge, plain_request, max_seconds=config.timeout)
            if completion is not None:
                return completion, True
        return await with_timeout(config.timeout, judge.answer(plain_request)), False
    finally:
        if hasattr(judge, "aclose"):
            await judge.aclose()


async def _try_with_logprobs(judge: Judge, plain_request: Request, *, max_seconds: float) -> Completion | None:
    """Send a request with parameters that ask for log-probabilities; return None if the server rejects them.

    plain_request : the request; its own parameters take precedence
    max_seconds : longest duration of the call

    Raises: CallError if the call fails for another reason.
    """
    logprobs_parameters = {"logprobs": True, "top_logprobs": TOP_LOGPROBS, **plain_request.parameters}
    logprobs_request = replace(plain_request, parameters=logprobs_parameters)
    try:
        return await with_timeout(max_seconds, judge.answer(logprobs_request))
    except CallError as error:
        is_same_request = logprobs_parameters == plain_request.parameters
        if error.status not in _REJECTED_STATUSES or is_same_request:
            raise
        return None


def _make_finding(step: str, severity: Severity, message: str) -> Finding:
    """Return the result of one check of the judge."""
    return Finding(step, message, severity=severity)


def _skip_remaining(*findings: Finding) -> tuple[Finding, ...]:
    """Return the findings, with a skipped one for each later step."""
    last_step = max(STEPS.index(finding.slug) for finding in findings)
    return (*findings, *(_make_finding(step, "skipped", "not reached") for step in STEPS[last_step + 1 :]))


def _check_model(config: JudgeConfig, completion: Completion) -> Finding:
    """Return a finding on the model that answered: "ok" if it is the requested one, otherwise "warning".

    completion : reply to the test request
    """
    description = completion.model or "a model that does not report its name"
    if completion.fingerprint:
        description += f" ({completion.fingerprint})"

    # A host may add or omit the owner of a model, as in meta-llama/Llama-3.3-70B-Instruct, and may add a version.
    _, _, requested_name = (config.model or "").rpartition("/")
    _, _, answering_name = completion.model.rpartition("/")
    if answering_name.startswith(requested_name):
        return _make_finding("model", "ok", f"{description} answers")
    return _make_finding("model", "warning", f"requested {config.model}, but {description} answers")


def _check_parsing(config: JudgeConfig, completion: Completion) -> Finding:
    """Return a finding on whether the judge's parser reads an answer in the reply to the test request.

    The finding is "failed" if the reply has no answer, "warning" if the reply begins with reasoning, which costs tokens, and "ok"
    otherwise.

    completion : reply to the test request
    """
    reading = config.questions().read(completion)
    has_answer = reading.missing_reason == "answered"
    if not has_answer:
        message = _describe_missing_answer(completion, reading.missing_reason)
        return _make_finding("parse", "failed", message)

    answer_text, has_reasoning = split_reasoning(completion.text)
    if not has_reasoning:
        return _make_finding("parse", "ok", f"{_format_excerpt(completion.text)} reads as {reading.answer:.3g}")

    answer_excerpt = _format_excerpt((answer_text or "").strip())
    message = (
        f"{answer_excerpt} reads as {reading.answer:.3g}, but the reply contains reasoning before it: "
        f"{completion.tokens_out:,} tokens are paid for. {_NO_REASONING}"
    )
    return _make_finding("parse", "warning", message)


def _describe_missing_answer(completion: Completion, missing_reason: str) -> str:
    """Describe why the parser finds no answer in a reply, and the remedy."""
    if missing_reason == "unfinished_reasoning":
        return (
            f"{_format_excerpt(completion.text)} is reasoning that does not end, so there is no answer (finish reason "
            f"'{completion.finish_reason}', {completion.tokens_out:,} tokens). {_NO_REASONING} Or raise max_tokens, so that "
            "the reasoning can end."
        )
    return (
        f"{_format_excerpt(completion.text)} is {missing_reason} (finish reason '{completion.finish_reason}'). "
        "Raise max_tokens, change the prompt or `decision`, or set another model."
    )


def _format_excerpt(text: str) -> str:
    """Return the beginning of a text in quotation marks, with escaped control characters."""
    return repr(text[:_MAX_DISPLAYED_CHARACTERS])


def _check_logprobs(config: JudgeConfig, completion: Completion, *, accepts_logprobs: bool) -> Finding:
    """Check that the reply has log-probabilities; without them, a judge with `decision: logprobs` cannot be used.

    completion : reply to the test request
    accepts_logprobs : whether the server accepted a request for log-probabilities
    """
    n_alternatives = len(completion.top_logprobs)
    if n_alternatives > 0:
        message = f"offered: {n_alternatives} alternatives for the first token (`decision: logprobs` works)"
        return _make_finding("logprobs", "ok", message)
    message = "the model returns none" if accepts_logprobs else "the model rejects requests for them"
    if config.decision == "logprobs":
        return _make_finding("logprobs", "failed", f"{message}. Set `decision: text` in the judge's config.")
    return _make_finding("logprobs", "warning", message)


def _check_price(config: JudgeConfig, completion: Completion) -> Finding:
    """Check that the prices of the model are known, and report the cost of the call."""
    usd = call_cost(config, completion.tokens_in, completion.tokens_out)
    if config.price_in is None or config.price_out is None:
        return _make_finding(
            "price",
            "warning",
            "unknown; a run with max_cost needs price_in and price_out (`price: 0` if calls are free)",
        )
    usage = f"{completion.tokens_in:,} tokens in and {completion.tokens_out:,} out cost ${usd:.6f}"
    rates = f"${config.price_in:g} in and ${config.price_out:g} out per million tokens, by {config.price_source}"
    table_age = check_price_age()
    is_outdated = table_age.severity == "warning" and config.price_source == describe_table()
    if is_outdated:
        return _make_finding("price", "warning", f"{usage} ({rates}); {table_age.message}. {table_age.remedy}")
    return _make_finding("price", "ok", f"{usage} ({rates})")
