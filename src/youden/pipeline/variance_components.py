"""What moves a ranking: items, luck, meetings, the judge, partners; what doubling each does; and one sentence about it.

`youden study variance RUN [OTHER_RUNS…]`: other runs are other judges' answers to the same trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from youden.data.folder.run_folder import RunFolder
from youden.errors import YoudenError
from youden.pipeline.abilities import mean_abilities
from youden.pipeline.multi_judge import JudgeSpread, learned, spread_of, spread_of_votes
from youden.stats.trials.variance_parts import VarianceParts
from youden.text.tables import Table, two_sided
from youden.types import PAIRED, Plan, Verdicts
from youden.types.results import MovingPart, Part, WhatMoves

MOST_NUMBERS = 2 * 10**8
"""A fit says what moves its ranking where that takes less: about a tenth of a second."""


def moves_table(found: WhatMoves) -> Table:
    """A line a part."""
    whole = sum(part.of_ability.value for part in found.parts if part.of_ability and part.in_interval) or 1.0
    rows = [_row(part, whole) for part in found.parts]
    right = ["SD in an ability", "95 %", "share", "interval with twice of it"]
    return two_sided(f"{found.run}: what moves an ability", ["part"], right, rows)


def write_moves(folder: RunFolder, result: Verdicts, run: str) -> None:
    """What a fit says of the answers it ranked; nothing where they are too many to look at on the way, or too few."""
    plan = result.plan
    shown = 1 if plan.trials.first_repeat is None else int(plan.trials.first_repeat.max(initial=1))
    if says_moves(plan, len(plan), shown=shown):
        with suppress(YoudenError):
            folder.write_moves(what_moves(result, run))


def says_moves(plan: Plan, n_trials: int, *, shown: int = 1) -> bool:
    """Whether so many trials are few enough. shown: responses that an agent shows of an item, at most."""
    on_an_item = min(plan.n_agents * shown, 2 * n_trials // max(plan.n_items, 1) + 1)
    return n_trials * on_an_item**2 < MOST_NUMBERS


def study_variance(folder: RunFolder, others: Sequence[RunFolder] = ()) -> WhatMoves:
    """Of a judged run, and of other judges' runs of the same trials.

    Raises: RunFolderError; StatisticsError [variance-few]; ConfigError [variance-other] where another run shares too few trials.
    """
    result = folder.read_verdicts(folder.read_plan())
    judged = [result, *(one.read_verdicts(one.read_plan()) for one in others)]
    return what_moves(result, folder.path.name, spread_of(judged) if others else None)


def what_moves(result: Verdicts, name: str, judges: JudgeSpread | None = None) -> WhatMoves:
    """Of answers to a plan. name: the run's; judges: of judges of the same trials, None for those of the run's own jury.

    Raises: as `study_variance`.
    """
    plan, used = result.plan, learned(result)
    ability = mean_abilities(result).ability
    repeats = plan.trials.first_repeat, plan.trials.second_repeat
    found = VarianceParts(
        plan.first[used],
        plan.second[used],
        plan.item[used],
        result.answer[used],
        ability=ability,
        n_items=plan.n_items,
        first_repeat=None if repeats[0] is None else repeats[0][used],
        second_repeat=None if repeats[1] is None else repeats[1][used],
    )
    if judges is None and result.votes is not None:
        judges = spread_of_votes(plan, result.votes)
    n_agents = int((~np.isnan(ability)).sum())
    held = _held(found, result, name)
    parts = [*held, *_outside(found, judges, name, n_agents)]
    whole = sum(_size(part) for part in parts if part.in_interval)
    between = max(0.0, float(np.nanvar(ability, ddof=1)) - whole)
    n_items = len(np.unique(plan.item[used]))
    said = _sentence(held, whole, between, judges, n_items=n_items)
    difference = float(np.sqrt(2 * n_agents / (n_agents - 1) * whole))
    return WhatMoves(name, n_items, tuple(parts), float(np.sqrt(whole)), difference, between, said)


def _asked_twice(result: Verdicts) -> list[float | None]:
    """Half the mean square of what two answers about the same two texts differ by, in one order and in both."""
    rows = (result.plan.arm == PAIRED) & result.answered
    (one, two), item = result.plan.text_rows, result.plan.item[rows].astype(np.int64)
    one, two = one[rows].astype(np.int64), two[rows].astype(np.int64)
    size = int(max(one.max(initial=0), two.max(initial=0))) + 1
    texts = (item * size + np.minimum(one, two)) * size + np.maximum(one, two)
    order = np.lexsort((one > two, texts))
    texts, turned, answer = texts[order], (one > two)[order], result.answer[rows][order]
    same = texts[1:] == texts[:-1]
    square = np.diff(answer) ** 2 / 2
    found = [square[same & ((turned[1:] != turned[:-1]) == other)] for other in (False, True)]
    return [float(part.mean()) if len(part) > 9 else None for part in found]


def _held(found: VarianceParts, result: Verdicts, run: str) -> list[MovingPart]:
    """What the interval of a ranking over items like these holds: items, luck, calls; then what of the calls is the judge's."""
    items, luck, rest = found.items, found.luck, found.rest
    repeated = result.plan.trials.first_repeat is not None
    own = items.value + (luck.value if luck else 0.0)
    meeting = max(own, 0.0) * found.of_meeting
    sizes = [items.times(found.of_items), luck.times(found.of_luck) if luck else None, rest.times(found.of_rest)]
    values = [max(part.value, 0.0) if part else 0.0 for part in sizes]
    whole = (sum(values) + meeting) or 1.0
    # twice the calls on these items: another draw of comparisons and partners; luck only where they show other responses
    calls = values[2] / 2 + meeting / 2
    shown = min(2.0, max(1.0, found.shown_again))
    parts = [
        MovingPart(
            "items: what agents have of their own on them" if repeated else "items, and the agents' luck on them",
            sizes[0],
            doubled=_width(whole / 2, whole),
        ),
        MovingPart(
            "luck: which response an agent gave",
            sizes[1],
            measure="" if luck else _how_luck_is_measured(result, run),
            doubled=_width(whole - values[1] + values[1] / shown, whole) if luck else None,
        ),
        MovingPart(
            "calls: whom an agent met, and what a comparison says",
            Part(values[2] + meeting, rest.low * found.of_rest + meeting, rest.high * found.of_rest + meeting),
            doubled=_width(values[0] + values[1] + calls, whole),
        ),
    ]
    for title, size in zip(("asked again", "asked in the other order"), _asked_twice(result), strict=True):
        one = None if size is None else size * found.of_rest
        parts.append(
            MovingPart(
                f"of these the judge, {title}",
                None if one is None else Part(one, one, one),
                measure="" if one is not None else f"youden calibrate {run}",
                in_interval=False,
            )
        )
    return parts


def _how_luck_is_measured(result: Verdicts, run: str) -> str:
    if result.plan.trials.first_repeat is None:
        return f"youden extend repeats {run} POOL, with more responses: logs with epochs, `youden generate --repeats 2`"
    return f"it is among the calls, for no response was shown twice: youden extend calls {run} {len(result.plan)}"


def _outside(found: VarianceParts, judges: JudgeSpread | None, run: str, n_agents: int) -> list[MovingPart]:
    """What it does not hold: it speaks of this judge and of these partners."""
    pairs = None if found.pairs is None else found.pairs.times(1 / max(n_agents - 2, 1))
    if pairs is not None and np.isnan(pairs.low):  # of few agents nobody knows how sure it is
        pairs = Part(pairs.value, pairs.value, pairs.value)
    judge = None if judges is None else Part(judges.variance, judges.low, judges.high)
    return [
        MovingPart(
            "the judge: another one of the kind",
            judge,
            measure="" if judge else f"youden rejudge {run} --judge OTHER, then `youden study variance` of both runs",
            in_interval=False,
        ),
        MovingPart(
            "partners: another pool of them",
            pairs,
            measure="" if pairs else "more calls: agents have to meet on several items",
            in_interval=False,
        ),
    ]


def _width(new: float, old: float) -> float:
    return float(np.sqrt(new / old))


def _sentence(
    held: Sequence[MovingPart], whole: float, between: float, judges: JudgeSpread | None, *, n_items: int
) -> str:
    if judges is not None and judges.variance > judges.between:
        return (
            f"Not rankable by these judges: they differ in an agent by ± {judges.variance**0.5:.3f} (SD), more than agents do, "
            f"± {judges.between**0.5:.3f}."
        )
    items, luck, calls = held[:3]
    most = max((items, luck, calls), key=_size)
    share, gain = _size(most) / (whole or 1.0), 1 - (calls.doubled or 1.0)
    asking = (
        "asking more on these changes nothing" if gain < 0.05 else f"twice the calls on these narrow it by {gain:.0%}"
    )
    if most is items:
        return f"Mostly the items ({share:.0%}): {3 * n_items} more of them halve the interval; {asking}."
    if most is luck:
        narrower = 1 - (luck.doubled or 1.0)
        return (
            f"Mostly the agents' luck ({share:.0%}): twice the repeats narrow the interval by {narrower:.0%}; {asking}."
        )
    return f"Mostly too few calls ({share:.0%}): twice as many on these items narrow the interval by {gain:.0%}."


def _size(part: MovingPart) -> float:
    return max(part.of_ability.value, 0.0) if part.of_ability else 0.0


def _row(part: MovingPart, whole: float) -> list[str]:
    if part.of_ability is None:
        return [part.name, "unknown", "", "", ""]
    of = part.of_ability
    low, value, high = (max(one, 0.0) ** 0.5 for one in (of.low, of.value, of.high))
    share = f"{max(of.value, 0.0) / whole:.0%}" if part.in_interval else "not in it"
    if part.name.startswith("of these"):
        share = f"({max(of.value, 0.0) / whole:.0%})"
    interval = "" if low == high else f"{low:.4f} … {high:.4f}"
    return [part.name, f"{value:.4f}", interval, share, "" if part.doubled is None else f"× {part.doubled:.2f}"]
