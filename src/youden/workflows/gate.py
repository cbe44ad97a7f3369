"""Whether a new agent is better, no worse or worse than a baseline; where that is undecided, how many calls would decide
it.

Nothing is asked here: the answers of a run are looked at, and the looks are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from youden.data.folder.run_files import FILE, GateLedger, read_ledger, write_ledger
from youden.data.folder.run_folder import RunFolder
from youden.errors import InputError
from youden.run_keys import Target
from youden.stats.trials.noninferiority import (
    Verdict,
    chance_decided,
    decide,
    items_that_decide,
    look_error,
    unseen_share,
)
from youden.stats.trials.trial_errors import VarianceLeft
from youden.text.printable import typed
from youden.text.sentences import counted, near, signed
from youden.text.tables import Table, two_sided
from youden.types.facts import ChoiceFacts
from youden.types.pool import Floats, Json, Positions
from youden.types.recommendation import JudgeSignalFacts, Recommendation
from youden.types.results import ABOUT
from youden.workflows.gate_answers import DifferenceForecast, GateAnswers, QualityDifference, read_answers
from youden.workflows.quality import LabelledAnswers, with_quality

MARGIN = 0.05
FEWEST_ITEMS = 6
_SURE = 0.9
"""The chance forecast for the calls asked for; `benchmarks/gate.py` counts how often they do decide."""
_MORE_ITEMS = np.unique(np.geomspace(FEWEST_ITEMS, 10**6, 500).astype(np.int64))


@dataclass(frozen=True)
class Needed:
    """What decides with a chance of .9, wherever the truth is.

    calls: more on these items, with their price where it is known. items: about how many, every comparison asked, where no
    number of calls on these does; chance: that of asking every comparison on these, None where none can be asked; as_it_is: the
    items at which the difference decides if it stays what it is. All None below 6 items.
    """

    calls: int | None = None
    usd: float | None = None
    items: int | None = None
    chance: float | None = None
    as_it_is: int | None = None


@dataclass(frozen=True)
class Gated:
    """One agent against the baseline: its ability less the baseline's, with the interval at `level`.

    low, high: None if one of the two was seen on fewer than 6 items, or if the judge does not discriminate; in the latter case,
    `reason` explains it and the analysis is not counted. look: 1 for the first look at these two agents, 2 for
    the second. n_items: those that say something about either, or without an interval about the one seen on fewer. needed: where
    undecided.
    """

    agent: str
    verdict: Verdict
    difference: float
    low: float | None
    high: float | None
    level: float
    look: int
    n_items: int
    needed: Needed | None
    reason: str = ""


@dataclass(frozen=True)
class Gate:
    """What a gate found. folder: as it was given; calls: those the run has made, None where it was imported.

    extends: whether more calls are an extension of the run, or a larger budget and the run again. choice, recommendation: of all
    agents in the run, as in its fit.json. calibration: one line on the judge's stored calibration, None without one. by: what is
    compared, quality in the labels' units.
    """

    folder: str
    baseline: str
    margin: float
    method: str
    calls: int | None
    extends: bool
    signature: str
    agents: tuple[Gated, ...]
    target: Target = "items-like-these"
    choice: ChoiceFacts | None = None
    recommendation: Recommendation | None = None
    calibration: str | None = None
    by: Literal["ability", "quality"] = "ability"

    @property
    def verdict(self) -> Verdict:
        """Of all agents together: the worst there is."""
        order: tuple[Verdict, ...] = ("worse", "undecided", "no worse", "better")
        return min((row.verdict for row in self.agents), key=order.index)

    @property
    def focus(self) -> tuple[str, ...]:
        """Whom more calls are to be spent on: undecided agents that ask for some, and the baseline; nobody where none do."""
        asking = tuple(row.agent for row in self._asking)
        return (*asking, self.baseline) if asking else ()

    @property
    def needed(self) -> Needed | None:
        """Calls that decide all who ask for some, None where nobody does. A row's own are for it and the baseline alone."""
        most = max((row.needed for row in self._asking if row.needed), key=lambda one: one.calls or 0, default=None)
        if most is None or most.calls is None or not self.extends:
            return most
        times = len(self.focus) / 2
        return replace(most, calls=int(most.calls * times), usd=None if most.usd is None else most.usd * times)

    @property
    def _asking(self) -> tuple[Gated, ...]:
        return tuple(row for row in self.agents if row.verdict == "undecided" and row.needed and row.needed.calls)

    def to_json(self) -> dict[str, Json]:
        return asdict(self) | {"verdict": self.verdict}


@dataclass(frozen=True)
class GateLook:
    """Which look at two agents comes next, and the level of its interval."""

    agent: str
    look: int
    level: float


def _target_of(folder: RunFolder, target: Target | None, labels: LabelledAnswers | None) -> Target:
    """Return the population that a gate's differences refer to; by default, that of the run, with the judges that it has.

    Raises: InputError [gate-target] if labels refer to another one.
    """
    if labels is None:
        default: Target = "these-items" if folder.terms.target == "these-items" else "items-like-these"
        return target or default
    if target not in (None, "items-like-these"):
        raise InputError(
            f"Quality refers to items like the labelled ones: got the target '{target}'. Remove --target.",
            slug="gate-target",
        )
    return "items-like-these"


def next_looks(
    folder: RunFolder,
    agents: Sequence[str],
    *,
    baseline: str,
    ledger: Path | None = None,
    target: Target | None = None,
    labels: LabelledAnswers | None = None,
) -> tuple[GateLook, ...]:
    """What `gate_run` would look at, without looking. Raises: as `gate_run`."""
    target = _target_of(folder, target, labels)
    kept, answers = read_ledger(ledger or folder.file(FILE)), with_quality(read_answers(folder), folder, labels)
    return _looks(answers, agents, baseline, kept, target)


def gate_run(
    folder: RunFolder,
    agents: Sequence[str],
    *,
    baseline: str,
    margin: float = MARGIN,
    ledger: Path | None = None,
    target: Target | None = None,
    labels: LabelledAnswers | None = None,
) -> Gate:
    """Compare `agents` with `baseline` on the answers of a run, and note the looks in `ledger` (gates.json in its folder).

    target: what differences are about; None for what the run says. margin: how much worse, on the scale of abilities, still
    counts as no worse. The interval's error is shared by the agents asked together and by all looks (`look_error`). labels:
    compare by quality instead, the margin in the labels' units; a look then counts as one at these answers and labels.

    Raises: InputError [gate-margin], [gate-agent], [gate-baseline], [gate-unjudged], [gate-apart], [gate-target]; RunFolderError
    where the run is not judged and fitted, or [gate-ledger].
    """
    if not 0 < margin < 2:
        raise InputError(
            f"The margin is {margin:g}. Give how much worse still counts as no worse, above 0 and below 2; {MARGIN:g} is usual.",
            slug="gate-margin",
        )
    target = _target_of(folder, target, labels)
    path = ledger or folder.file(FILE)
    answers, kept = with_quality(read_answers(folder, target=target), folder, labels), read_ledger(path)
    looks = _looks(answers, agents, baseline, kept, target)
    facts = folder.read_facts()
    signal = None if labels or facts.signal.discriminates else facts.signal
    old = answers.agent_ids.index(baseline)
    rows = tuple(
        _by_quality(answers.quality(look.agent, baseline, look.level), look, margin=margin)
        if answers.quality
        else gated(
            answers.outlook(answers.agent_ids.index(look.agent), old),
            look,
            n_asked=len(looks),
            n_items=answers.n_items,
            margin=margin,
            usd=answers.usd_a_call,
        )
        for look in looks
    )
    if signal is not None:
        rows = tuple(_without_signal(row, signal) for row in rows)
    for row in rows:
        if row.low is not None:
            kept = kept.having(row.agent, baseline, answers=answers.digest, target=target)
    write_ledger(path, kept)
    return Gate(
        folder=str(folder.path),
        baseline=baseline,
        margin=margin,
        method=answers.method,
        calls=answers.n_calls,
        extends=answers.extends,
        signature=answers.signature,
        agents=rows,
        target=target,
        choice=None if labels else facts.choice,
        recommendation=None if labels else facts.recommendation,
        calibration=folder.calibration,
        by="quality" if labels else "ability",
    )


def _without_signal(row: Gated, signal: JudgeSignalFacts) -> Gated:
    """Return the row as undecided, because the answers of a judge that does not discriminate show nothing about either agent."""
    reason = f"{signal.judge_reason}. {signal.judge_remedy}"
    return replace(row, verdict="undecided", low=None, high=None, needed=None, reason=reason)


def _by_quality(found: QualityDifference, look: GateLook, *, margin: float) -> Gated:
    value, low, high, n = found
    verdict = decide((low + high) / 2, (high - low) / 2, margin=margin).verdict
    return Gated(look.agent, verdict, value, low, high, look.level, look.look, n, None)


def _looks(
    answers: GateAnswers, agents: Sequence[str], baseline: str, kept: GateLedger, target: Target
) -> tuple[GateLook, ...]:
    wanted = tuple(dict.fromkeys(agents))
    for agent in (baseline, *wanted):
        _check(answers, agent)
    if not wanted or baseline in wanted:
        raise InputError(
            f"'{baseline}' was given as the baseline and {'no agent' if not wanted else 'as the agent'}. "
            "Name the new agent and, apart from it, the one it is to be compared with.",
            slug="gate-baseline",
        )
    numbers = [kept.look(agent, baseline, answers=answers.digest, target=target) for agent in wanted]
    return tuple(
        GateLook(agent, number, 1 - 2 * look_error(number, n_asked=len(wanted)))
        for agent, number in zip(wanted, numbers, strict=True)
    )


def _check(answers: GateAnswers, agent: str) -> None:
    if agent not in answers.agent_ids:
        raise InputError(
            f"The run has no agent '{agent}'. {near(agent, answers.agent_ids)} "
            "Name one of them, or put the agent's responses into the pool and judge it.",
            slug="gate-agent",
        )
    if not answers.judged[answers.agent_ids.index(agent)]:
        raise InputError(
            f"The agent '{agent}' was never judged in this run: no comparison of it has an answer. "
            "Judge a plan that holds it, or retry what failed (`youden judge CONFIG --retry-failed`).",
            slug="gate-unjudged",
        )


def gated(
    outlook: DifferenceForecast, look: GateLook, *, n_asked: int, n_items: int, margin: float, usd: float | None
) -> Gated:
    """The verdict of one look, one of `n_asked` asked together. n_items: of the run; usd: a call's price.

    Raises: InputError [gate-apart].
    """
    now, alpha = outlook.now, look_error(look.look, n_asked=n_asked)
    if np.isnan(now.variance):
        raise InputError(
            f"Nothing says how '{look.agent}' and the baseline compare: no chain of scores links them, or one hangs on a single "
            "cell. Judge more comparisons of both.",
            slug="gate-apart",
        )
    n_known = int(min(now.n_items, now.fewest))
    if n_known < FEWEST_ITEMS:
        return Gated(look.agent, "undecided", now.value, None, None, look.level, look.look, n_known, Needed())
    found = decide(now.value, now.half_width(alpha), margin=margin)
    needed = None
    if found.verdict == "undecided":
        alpha = look_error(look.look + 1, n_asked=n_asked)
        needed = _needed(outlook, n_items=n_items, margin=margin, alpha=alpha, usd=usd)
    return Gated(
        look.agent, found.verdict, now.value, found.low, found.high, look.level, look.look, now.n_items, needed
    )


def _needed(outlook: DifferenceForecast, *, n_items: int, margin: float, alpha: float, usd: float | None) -> Needed:
    now = outlook.now

    def chance(left: VarianceLeft, items: Positions) -> Floats:
        return chance_decided(
            now.value,
            (now.variance - now.noise, now.noise),
            left=left,
            freedom=now.n_items - 1,
            later_freedom=items - 1,
            hidden=now.hidden * unseen_share(alpha, np.minimum(now.n_equal / left.own, items)) ** 2,
            margin=margin,
            alpha=alpha,
        )

    known = chance(outlook.left, outlook.items_then)
    if (known >= _SURE).any():
        calls = int(outlook.calls[(known >= _SURE).argmax()])
        return Needed(calls=calls, usd=None if usd is None else usd * calls)
    items = _MORE_ITEMS[np.searchsorted(_MORE_ITEMS, n_items, side="right") :]
    own, noise = (float(min(part, default=1.0)) for part in outlook.left)
    sure = chance(VarianceLeft(own * n_items / items, noise * n_items / items), items) >= _SURE
    return Needed(
        items=int(items[sure.argmax()]) if sure.any() else None,
        chance=float(known.max()) if len(known) else None,
        as_it_is=items_that_decide(now, margin=margin, alpha=alpha),
    )


def table(gate: Gate) -> Table:
    """A row an agent."""
    rows = [
        [row.agent, row.verdict, f"{row.difference:+.3f}", interval(row), f"{row.level:.2%}", f"{row.n_items:,}"]
        for row in gate.agents
    ]
    title = f"Against {gate.baseline}, margin {gate.margin:g}"
    return two_sided(
        title,
        ["agent", "verdict"],
        ["difference", "interval", "level", "labels" if gate.by == "quality" else "items"],
        rows,
    )


def interval(row: Gated) -> str:
    """`−0.031 … 0.024`, or a dash where there is none."""
    return signed(row.low, row.high, digits=3)


def sentence(gate: Gate, row: Gated) -> str:
    """Format the result for one agent, and what to do if it is undecided."""
    if row.reason:
        return f"undecided: {row.agent} against {gate.baseline}: {row.reason}"
    at = f"{100 * row.level:.4g} % interval {interval(row)}"
    about = f"{row.agent}, {gate.by} less that of {gate.baseline}: {row.difference:+.3f} ({at})"
    match row.verdict:
        case "better":
            return f"better: {about}."
        case "no worse":
            return f"no worse: {about}, all above the margin −{gate.margin:g}."
        case "worse":
            return f"worse: {about}."
        case "undecided":
            return f"undecided: {about}. {_undecided(gate, row)}"


def _undecided(gate: Gate, row: Gated) -> str:
    needed = row.needed
    if gate.by == "quality":
        return "Label more answers of both: `youden label` draws them."
    if row.low is None or needed is None:
        seen = counted(row.n_items, "item")
        return f"One of the two was seen on {seen} only; an interval takes {FEWEST_ITEMS}. Judge it on more."
    if needed.calls is not None:
        return f"{needed.calls:,} calls more decide it with a chance of 90 %, wherever the truth is."
    more = f"some {needed.items:,}" if needed.items else "more"
    known = "An imported run cannot be asked more" if gate.calls is None else "Every comparison on these items is asked"
    if needed.chance is not None:
        known = (
            f"Asking every comparison on these items decides it with a chance of {needed.chance:.0%} where the truth is hardest "
            "to tell"
        )
    said = f"{known}; for 90 % {more} items are needed, or a wider margin."
    if not needed.as_it_is:
        return said
    return f"{said} If the difference stays what it is, {needed.as_it_is:,} items compared as often as these decide it."


def to_do(gate: Gate) -> str | None:
    """The command that goes on, and what it costs; None where no calls are asked for."""
    needed = gate.needed
    if needed is None:
        return None
    price = "price unknown" if needed.usd is None else f"about ${needed.usd:,.2f}"
    in_all = (gate.calls or 0) + (needed.calls or 0)
    config = f"{gate.folder}/config.yaml"
    if gate.extends:
        focus = [word for agent in gate.focus for word in ("--focus", agent)]
        command = typed(["youden", "extend", "calls", gate.folder, str(needed.calls), *focus])
    else:
        command = f"{typed(['youden', 'run', config])}  # with `calls: {in_all}`; what was answered is not asked again"
    return f"{command}  # {price}; {in_all:,} calls in all; then gate again"


def lines_of(gate: Gate) -> Iterator[str]:
    """All there is to say beside the table."""
    yield from (sentence(gate, row) for row in gate.agents)
    if (command := to_do(gate)) is not None:
        yield command
    yield from of_all(gate)
    yield footing(gate)
    yield f"signature: {gate.signature}"


def of_all(gate: Gate) -> tuple[str, ...]:
    """Return a line on the judge's calibration and a line with the run's recommendation, each only if there is one."""
    lines = [gate.calibration] if gate.calibration else []
    recommendation = gate.recommendation
    if recommendation is not None and recommendation.form != "none":
        lines.append(
            f"Of all agents in the run, by its own ranking and apart from this gate's looks: {recommendation.text}"
        )
    return tuple(lines)


def footing(gate: Gate) -> str:
    """How the error was shared."""
    looks = sorted({row.look for row in gate.agents})
    number = " and ".join(map(str, looks))
    together = f", shared by {len(gate.agents)} agents asked together (Bonferroni)" if len(gate.agents) > 1 else ""
    hold = ", as far as intervals of quality hold" if gate.by == "quality" else ""
    return (
        f"Margin {gate.margin:g}; look {number} at these answers{together}. A wrong 'worse', or a wrong pass, has a chance of at "
        f"most 5 % over all looks{hold}. {gate.method[0].upper()}{gate.method[1:]}; about {ABOUT[gate.target]}."
    )
