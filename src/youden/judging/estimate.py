"""Estimate the cost and duration of judging a plan, before anything is sent.

The duration is computed from limits in the judge's config (calls in flight, seconds per call, requests and tokens per
minute), not measured. Nothing is downloaded: a tokenizer is used only if its file is on the disk.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from youden.errors import YoudenError
from youden.judging.call.failures import is_final
from youden.judging.config.judge_files import JudgeConfig, JudgeLike, call_cost, load_judge_config, resolve_judge
from youden.judging.question.questions import CHARACTERS_PER_TOKEN, KeySource, Questions, RowKey, iter_keys
from youden.judging.store.answers import Store, open_store_of_folder
from youden.judging.store.plan_answers import CHUNK
from youden.types import Plan, Pool
from youden.types.planning import Cost
from youden.types.pool import Bools, Json, Positions

DEFAULT_CALL_SECONDS = 1.0
"""Duration of a call if the judge's config has no `seconds_per_call`: a few hundred tokens, answered with one word."""


def expected_duration(config: JudgeConfig, *, n_calls: int, n_tokens: float) -> tuple[float | None, str]:
    """Estimate the duration of calls that need no retries.

    Each limit (on calls in flight, requests per minute and tokens per minute) gives a duration; the longest is returned.
    For the limit on calls in flight, a call takes the judge's `seconds_per_call`, or 1 second (`DEFAULT_CALL_SECONDS`) if it is
    not set.

    Parameters
    ----------
    config : JudgeConfig
        Judge with its limits.
    n_calls : int
        Number of calls.
    n_tokens : float
        Number of tokens of all requests and answers.

    Returns
    -------
    minutes : float or None
        None if the judge makes no calls, or if it is queried in batches, which take up to a day.
    pace : str
        Description of the limit that determines the duration, for display. For batches, it states that they take up to a
        day; empty if the judge makes no calls.
    """
    if not config.makes_calls:
        return None, ""
    if config.is_batched:
        return None, "a batch returns within a day"

    # minutes by each limit, with its description
    estimates = [_estimate_by_concurrency(config, n_calls)]
    requests_per_minute = config.requests_per_minute
    if requests_per_minute is not None:
        estimates.append((n_calls / requests_per_minute, f"{requests_per_minute:g} requests per minute"))
    tokens_per_minute = config.tokens_per_minute
    if tokens_per_minute is not None:
        estimates.append((n_tokens / tokens_per_minute, f"{tokens_per_minute:g} tokens per minute"))
    return max(estimates)


def _estimate_by_concurrency(config: JudgeConfig, n_calls: int) -> tuple[float, str]:
    """Estimate the minutes that calls take because of the limit on calls in flight, and describe this limit.

    A run begins with `start_concurrency` calls in flight, and adds calls until their number reaches `concurrency`.

    config : judge with its limits
    n_calls : number of calls

    Returns the minutes, and the description for display: seconds per call, and number of calls in flight.
    """
    limit = config.concurrency
    start = min(config.start_concurrency, limit)
    concurrency = f"{limit} at once" if start == limit else f"{start} at once, growing to {limit}"

    call_seconds = config.seconds_per_call or DEFAULT_CALL_SECONDS
    assumed = "" if config.seconds_per_call else " (assumed)"
    total_seconds = seconds_in_flight(n_calls, seconds=call_seconds, start=start, limit=limit)
    return total_seconds / 60, f"{call_seconds:g} s per call{assumed}, {concurrency}"


def seconds_in_flight(n_calls: int, *, seconds: float, start: int, limit: int) -> float:
    """Compute the duration of calls that are sent in rounds of growing size.

    All calls of a round are sent at once and take the same time. Each round has twice as many calls as the round before, up to
    a limit. For example, 100 calls with a limit of 35 may be sent in rounds of 10, 20, 35 and 35 calls.

    Parameters
    ----------
    n_calls : int
        Number of calls.
    seconds : float
        Duration of a call.
    start, limit : int
        Number of calls in flight in the first round, and largest number in any round; 1 ≤ start ≤ limit.

    Returns
    -------
    float
        `seconds` times the number of rounds. If the last round is not full, it counts as a fraction of a round. The result is at
        least `seconds`, or 0 without a call.

    Examples
    --------
    >>> seconds_in_flight(100, seconds=2.0, start=10, limit=10)
    20.0
    >>> seconds_in_flight(100, seconds=2.0, start=10, limit=35)
    8.0
    """
    if n_calls == 0:
        return 0.0

    n_growing_rounds = 0  # full rounds with fewer calls than `limit`
    n_left, n_in_flight = n_calls, start
    while n_in_flight < min(limit, n_left):
        n_growing_rounds += 1
        n_left -= n_in_flight
        n_in_flight = min(2 * n_in_flight, limit)
    return seconds * max(n_growing_rounds + n_left / n_in_flight, 1.0)


N_TOKENIZED_TEXTS = 200
"""Number of texts that are tokenized; the others are assumed to have the same number of tokens per character."""

MAX_OTHER_JUDGES = 5
"""Maximum number of recorded judges of the same model for which answers to the same trials are counted."""

_ENCODINGS = "https://openaipublic.blob.core.windows.net/encodings"


def estimate_for_judge(plan: Plan, judge: JudgeLike) -> Cost:
    """Estimate the cost of judging a plan by any judge; a judge that is a function costs 0.

    Parameters
    ----------
    plan : Plan
        Trials to be judged.
    judge : str, Path, mapping, JudgeConfig or callable
        Name, file or config of the judge, or a function of two texts.

    Returns
    -------
    Cost
        Estimated numbers of calls and tokens, and their cost in USD.
    """
    config = resolve_judge(judge)
    if isinstance(config, JudgeConfig):
        return estimate(plan, config)
    return Cost(cells=plan.n_cells, calls=len(plan), tokens_in=0, tokens_out=0, usd=0.0)


def estimate_by_characters(plan: Plan, config: JudgeConfig) -> Cost:
    """Estimate the cost of judging a plan without its pool, on the assumption of four characters per token.

    Parameters
    ----------
    plan : Plan
        Trials to be judged, with the total number of characters of their texts.
    config : JudgeConfig
        Config of the judge, with its prices.

    Returns
    -------
    Cost
        Estimated numbers of calls and tokens, and their cost in USD. The duration is not estimated.
    """
    if not config.makes_calls:
        return Cost(cells=plan.n_cells, calls=len(plan), tokens_in=0, tokens_out=0, usd=0.0)
    n_characters = plan.characters + config.overhead_characters * len(plan)
    tokens_in = math.ceil(n_characters / CHARACTERS_PER_TOKEN)
    tokens_out = config.answer_tokens * len(plan)
    usd = _compute_cost(config, tokens_in, tokens_out)
    return Cost(cells=plan.n_cells, calls=len(plan), tokens_in=tokens_in, tokens_out=tokens_out, usd=usd)


def _compute_cost(config: JudgeConfig, tokens_in: float, tokens_out: float) -> float | None:
    """Return the cost of tokens in USD; None if a price is unknown."""
    usd = call_cost(config, tokens_in, tokens_out)
    return None if math.isnan(usd) else usd


def estimate(
    plan: Plan,
    config: JudgeConfig,
    *,
    environment: Mapping[str, str] | None = None,
    store: str | Path | None = None,
    keys: KeySource = iter_keys,
    jury: Sequence[JudgeConfig] = (),
    saved: frozenset[str] = frozenset(),
) -> Cost:
    """Estimate calls, tokens, USD and minutes of judging a plan, and count its cells (agent and item).

    Tokens of requests are counted by tiktoken's encoding of the model. If it is not on the disk, or if the plan has no pool,
    four characters count as one token. Without a pool, the prompts of the items are not counted, and long texts are counted
    without truncation. An answer counts as the maximum number of tokens in the judge's config, or as 16 without a maximum.

    Parameters
    ----------
    plan : Plan
        Trials to be judged, with their pool if it is available.
    config : JudgeConfig
        The judge. The estimate for a jury is the sum over its judges.
    environment : mapping, optional
        Environment variables that locate tiktoken's files. Default: those of the process.
    store : str or Path, optional
        Path or URL of the store, whose answers cost nothing. It need not exist; a store that cannot be read is ignored.
        Default: no store, so that every trial costs a call.
    keys : callable, default iter_keys
        Function that computes the request hashes of a plan.
    jury : sequence of JudgeConfig, default ()
        All judges of the jury that the judge belongs to. Their stored answers do not count as answers under other settings.
    saved : frozenset of str, default frozenset()
        Request hashes of answers in the run's folder. They count as stored, even if the store cannot be read.

    Returns
    -------
    Cost
        The estimate. `calls` counts all trials. `tokens_in`, `tokens_out`, `usd` and `minutes` count a request that several
        trials share once. `stored` counts the trials with an answer or a rejection in the store, or an answer in `saved`.
        `usd_left` is the cost of the others in USD; None if no outcome is stored. If a price is unknown, `usd` and `usd_left` are
        None. `minutes` is the duration of the requests without a stored outcome.
    """
    if config.judges:
        estimate_judge = partial(
            estimate, plan, environment=environment, store=store, keys=keys, jury=config.judges, saved=saved
        )
        return _sum_costs([estimate_judge(judge) for judge in config.judges])
    cost = estimate_by_characters(plan, config)
    if not config.makes_calls:
        return cost

    if environment is None:
        environment = os.environ
    questions = config.questions()
    characters = np.zeros(len(plan), dtype=np.int64)
    is_repeated = np.zeros(len(plan), dtype=bool)
    if plan.source is None:  # the requests are not known
        store, saved = None, frozenset()
    else:
        characters = questions.count_characters(plan)
        cost = _with_counted_tokens(cost, plan, config, int(characters.sum()), environment)
        is_repeated = _find_repeated_requests(plan, shows_task=questions.prompt.shows_task)

    def add_remaining_cost(cost: Cost, find_answered: Callable[[list[str]], frozenset[str]]) -> Cost:
        return _with_remaining_cost(
            cost, config, find_answered, keys(questions, plan), characters, is_repeated=is_repeated
        )

    if store is not None:
        with suppress(YoudenError), open_store_of_folder(store) as answers:
            cost = add_remaining_cost(cost, partial(_find_answered, answers, saved))
            saved = frozenset()  # they are counted
            if cost.calls_left:
                known_digests = {judge.questions().digest for judge in (config, *jury) if judge.makes_calls}
                cost = _with_answers_under_other_settings(
                    cost, config, answers, lambda questions: keys(questions, plan), known_digests=known_digests
                )
    if saved:
        cost = add_remaining_cost(cost, saved.intersection)
    if is_repeated.any():
        cost = _without_repeated_requests(cost, config, is_repeated, characters)
    prices = "" if cost.usd is None else config.price_source
    if cost.stored:  # the duration of the other calls is known already
        return replace(cost, prices=prices)
    n_requests = cost.calls - cost.n_shared
    minutes, pace = expected_duration(config, n_calls=n_requests, n_tokens=cost.tokens_in + cost.tokens_out)
    return replace(cost, prices=prices, minutes=minutes, pace=pace)


def _without_repeated_requests(cost: Cost, config: JudgeConfig, is_repeated: Bools, characters: Positions) -> Cost:
    """Remove the tokens and the cost of repeated requests from an estimate.

    A request that several trials share is sent once, but the estimate counts it for each of these trials.

    cost : estimate for all trials
    is_repeated : bool array (n_trials,), whether an earlier trial has the same request
    characters : int array (n_trials,), number of characters of each trial's request
    """
    n_repeated = int(is_repeated.sum())
    n_requests = len(is_repeated) - n_repeated
    n_sent_characters = int(characters[~is_repeated].sum())

    tokens_in = math.ceil(cost.tokens_in * n_sent_characters / int(characters.sum()))
    tokens_out = config.answer_tokens * n_requests
    usd = _compute_cost(config, tokens_in, tokens_out)
    return replace(cost, tokens_in=tokens_in, tokens_out=tokens_out, usd=usd, n_shared=n_repeated)


def _find_repeated_requests(plan: Plan, *, shows_task: bool) -> Bools:
    """Find the trials whose request equals that of an earlier trial.

    Two requests are equal if they show the same texts in the same order, and have the same replicate number.

    shows_task : whether a request also contains the prompt of the item, so that equal requests have the same item, too

    Returns a bool array (n_trials,).
    """
    texts = plan.pool.all_texts
    text_hashes = np.fromiter(map(hash, texts.flat), dtype=np.int64, count=texts.size)
    distinct_hashes, text_ids = np.unique(text_hashes, return_inverse=True)
    n_texts = len(distinct_hashes)
    if n_texts == texts.size:  # all texts differ, and so do all requests
        return np.zeros(len(plan), dtype=bool)

    text_ids = text_ids.astype(np.int64).reshape(texts.shape)
    first_row, second_row = plan.text_rows
    first_item, second_item = plan.trials.text_cells
    first_text_ids = text_ids[first_row, first_item]
    second_text_ids = text_ids[second_row, second_item]

    # one number per distinct request; pairs are numbered first, because the product for a large pool would exceed int64
    _, pair_ids = np.unique(first_text_ids * n_texts + second_text_ids, return_inverse=True)
    n_replicates = int(plan.replicate.max(initial=0)) + 1
    request_ids = pair_ids * n_replicates + plan.replicate
    if shows_task:
        request_ids = request_ids * plan.n_items + plan.item

    _, first_trials = np.unique(request_ids, return_index=True)
    is_repeated = np.ones(len(plan), dtype=bool)
    is_repeated[first_trials] = False
    return is_repeated


def _with_counted_tokens(
    cost: Cost, plan: Plan, config: JudgeConfig, n_characters: int, environment: Mapping[str, str]
) -> Cost:
    """Replace the number of input tokens in an estimate by one from the requests and, if possible, the model's tokenizer.

    Only the first texts of the pool are tokenized. Their tokens per character are multiplied by the characters of all requests.

    cost : estimate from the texts of the trials, with four characters per token
    plan : plan with its pool
    config : judge, with its prices
    n_characters : number of characters of all requests, including the prompts of the items if the judge sees them
    environment : environment variables that locate the tokenizer's files

    Returns the estimate with `tokenizer`, `tokens_in` and `usd`.
    """
    tokenizer, tokens_per_character = cost.tokenizer, 1 / CHARACTERS_PER_TOKEN
    encoding = _find_encoding(config.model or "", environment)
    if encoding is not None:
        tokenizer = str(encoding.name)
        tokens_per_character = _measure_tokens_per_character(encoding, plan.pool) or tokens_per_character
    tokens_in = math.ceil(n_characters * tokens_per_character)
    usd = _compute_cost(config, tokens_in, cost.tokens_out)
    return replace(cost, tokenizer=tokenizer, tokens_in=tokens_in, usd=usd)


def _with_remaining_cost(
    cost: Cost,
    config: JudgeConfig,
    find_answered: Callable[[list[str]], frozenset[str]],
    row_keys: Iterator[RowKey],
    characters: Positions,
    *,
    is_repeated: Bools,
) -> Cost:
    """Add to an estimate the number of trials with a stored outcome, and the cost and duration of the remaining requests.

    The input tokens of a request are assumed to be proportional to its characters. All answers are assumed to have the same
    number of tokens.

    cost : estimate for all trials
    config : judge, with its prices
    find_answered : function that returns those of the given request hashes that have an outcome
    row_keys : row and request hash of each trial
    characters : int array (n_trials,), number of characters of each trial's request
    is_repeated : bool array (n_trials,), whether an earlier trial has the same request

    Returns the estimate with `stored` and `usd_left`; `usd_left` is None if no outcome is stored or a price is unknown. If an
    outcome is stored, the estimate also has `minutes` and `pace`.
    """
    remaining = _count_remaining(find_answered, row_keys, characters, is_repeated)
    if remaining.n_stored_trials == 0:
        return replace(cost, stored=0, usd_left=None)
    remaining_tokens_in = cost.tokens_in * remaining.n_characters / int(characters.sum())
    remaining_tokens_out = cost.tokens_out * remaining.n_requests / len(characters)
    usd_left = _compute_cost(config, remaining_tokens_in, remaining_tokens_out)
    n_tokens = remaining_tokens_in + remaining_tokens_out
    minutes, pace = expected_duration(config, n_calls=remaining.n_requests, n_tokens=n_tokens)
    return replace(cost, stored=remaining.n_stored_trials, usd_left=usd_left, minutes=minutes, pace=pace)


def _with_answers_under_other_settings(
    cost: Cost,
    config: JudgeConfig,
    store: Store,
    compute_keys: Callable[[Questions], Iterator[RowKey]],
    *,
    known_digests: set[str],
) -> Cost:
    """Add to an estimate how many trials the same model has answered under other settings, such as another prompt.

    The last `MAX_OTHER_JUDGES` judges of the model in the store are examined. The one with the most answers to the first
    `CHUNK` trials is reported, with the differences of its settings. Judges whose prompt has other labels are ignored.

    compute_keys : function that yields the row and the request hash of each trial, given the questions of a judge
    known_digests : digests of the questions of this judge, and of the other judges of its jury
    """
    most_first_answers = 0
    reported_judge: tuple[Questions, dict[str, Json]] | None = None
    judges_of_model = [judge for judge in store.judges() if judge.get("model") == config.model]
    for stored_config in judges_of_model[-MAX_OTHER_JUDGES:]:
        with suppress(YoudenError):  # a judge whose prompt cannot be loaded is ignored
            questions = load_judge_config(stored_config).questions()
            has_same_labels = questions.prompt.labels == config.loaded_prompt.labels
            if not has_same_labels or questions.digest in known_digests:
                continue
            n_first_answers = _count_answers(store, islice(compute_keys(questions), CHUNK))
            if n_first_answers > most_first_answers:
                most_first_answers = n_first_answers
                reported_judge = questions, stored_config
    if reported_judge is None:
        return cost

    questions, stored_config = reported_judge
    n_answers = _count_answers(store, compute_keys(questions))
    return replace(cost, n_other_settings=n_answers, other_settings=_describe_differences(config, stored_config))


def _describe_differences(config: JudgeConfig, stored_config: Mapping[str, Json]) -> str:
    """Describe how the settings of a stored judge differ from those of a judge, such as "max_tokens: 5 instead of 8"."""
    differences = []
    for name, value in config.public().items():
        stored_value = stored_config.get(name)
        if name != "name" and stored_value != value:
            differences.append(f"{name}: {_format_setting(stored_value)} instead of {_format_setting(value)}")
    return ", ".join(differences)


def _format_setting(value: Json) -> str:
    """Format the value of a setting as in a judge's file."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _count_answers(store: Store, row_keys: Iterator[RowKey]) -> int:
    """Count the trials with a stored answer. row_keys: row and request hash of each trial."""
    n_answers = 0
    while chunk := list(islice(row_keys, CHUNK)):
        keys = [key for _, key in chunk]
        answers = store.answers(list(dict.fromkeys(keys)))
        n_answers += sum(key in answers for key in keys)
    return n_answers


class _RemainingRequests(NamedTuple):
    """Numbers of the requests of a plan that have no stored outcome, and of the trials that have one."""

    n_stored_trials: int
    """Number of trials whose request has a stored outcome."""
    n_requests: int
    """Number of requests without a stored outcome. A request of several trials counts once."""
    n_characters: int
    """Number of characters of these requests."""


def _find_answered(store: Store, saved: frozenset[str], keys: list[str]) -> frozenset[str]:
    """Return those of the given request hashes that have an outcome in a store, or a saved answer."""
    outcomes = store.get_outcomes(keys)
    return saved.intersection(keys).union(key for key, outcome in outcomes.items() if is_final(outcome))


def _count_remaining(
    find_answered: Callable[[list[str]], frozenset[str]],
    row_keys: Iterator[RowKey],
    characters: Positions,
    is_repeated: Bools,
) -> _RemainingRequests:
    """Count the trials with a stored outcome, and the requests that have none.

    find_answered : function that returns those of the given request hashes that have an outcome
    row_keys : row and request hash of each trial, which are looked up in chunks of `CHUNK` trials
    characters : int array (n_trials,), number of characters of each trial's request
    is_repeated : bool array (n_trials,), whether an earlier trial has the same request
    """
    n_stored_trials = n_requests = n_characters = 0
    while chunk := list(islice(row_keys, CHUNK)):
        stored_keys = find_answered(list(dict.fromkeys(key for _, key in chunk)))
        n_stored_trials += sum(key in stored_keys for _, key in chunk)

        remaining_rows = [row for row, key in chunk if key not in stored_keys and not is_repeated[row]]
        n_requests += len(remaining_rows)
        n_characters += int(characters[remaining_rows].sum())
    return _RemainingRequests(n_stored_trials, n_requests, n_characters)


def _find_encoding(model: str, environment: Mapping[str, str]) -> Any | None:
    """Return tiktoken's encoding for a model, without downloading it.

    environment : environment variables, which may set the folder of downloaded encodings

    Returns None if tiktoken is not installed, does not know the model, or has no file of the encoding on the disk.
    """
    try:
        tiktoken = import_module("tiktoken")
        name = tiktoken.encoding_name_for_model(model)
    except (ImportError, KeyError):
        return None

    file = _get_encoding_file(name, environment)
    return tiktoken.get_encoding(name) if file.is_file() else None


def _get_encoding_file(name: str, environment: Mapping[str, str]) -> Path:
    """Return the path at which tiktoken stores a downloaded encoding."""
    configured_folder = environment.get("TIKTOKEN_CACHE_DIR") or environment.get("DATA_GYM_CACHE_DIR")
    folder = Path(configured_folder or Path(tempfile.gettempdir(), "data-gym-cache"))
    url = f"{_ENCODINGS}/{name}.tiktoken"
    file_name = hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()  # as tiktoken names its files
    return folder / file_name


def _measure_tokens_per_character(encoding: Any, pool: Pool) -> float:
    """Measure the mean number of tokens per character in the first texts of a pool; 0 if it has no texts."""
    texts = (text for text in pool.texts.flat if text)
    first_texts = [str(text) for text in islice(texts, N_TOKENIZED_TEXTS)]
    n_characters = sum(map(len, first_texts))
    n_tokens = sum(len(encoding.encode_ordinary(text)) for text in first_texts)
    return n_tokens / n_characters if n_characters else 0.0


def _sum_costs(costs: list[Cost]) -> Cost:
    """Return the sum of the estimates for several judges that answer one after another.

    A sum in USD or minutes is None if one of its terms is unknown.
    """
    costs_of_calls = [cost for cost in costs if cost.pace]
    return Cost(
        cells=costs[0].cells,
        calls=sum(cost.calls for cost in costs),
        tokens_in=sum(cost.tokens_in for cost in costs),
        tokens_out=sum(cost.tokens_out for cost in costs),
        usd=_sum_if_known(cost.usd for cost in costs),
        tokenizer=", ".join(dict.fromkeys(cost.tokenizer for cost in costs)),
        prices=", ".join(dict.fromkeys(cost.prices for cost in costs if cost.prices)),
        minutes=_sum_if_known(cost.minutes for cost in costs_of_calls) if costs_of_calls else None,
        pace="; then ".join(cost.pace for cost in costs_of_calls),
        stored=sum(cost.stored for cost in costs),
        usd_left=_sum_remaining(costs),
        n_shared=sum(cost.n_shared for cost in costs),
        n_other_settings=sum(cost.n_other_settings for cost in costs),
        other_settings="; ".join(dict.fromkeys(cost.other_settings for cost in costs if cost.other_settings)),
    )


def _sum_remaining(costs: list[Cost]) -> float | None:
    """Return the cost of the calls without a stored outcome in USD; None if nothing is stored or a price is unknown."""
    if not any(cost.stored for cost in costs):
        return None
    return _sum_if_known(cost.usd_left if cost.stored else cost.usd for cost in costs)


def _sum_if_known(values: Iterable[float | None]) -> float | None:
    """Return the sum of the values; None if one of them is None."""
    terms = list(values)
    known_terms = [term for term in terms if term is not None]
    return sum(known_terms) if len(known_terms) == len(terms) else None
