"""How many calls an extension takes to give intervals of a half-width, and what half-width its calls give.

Items that are asked again and again do not narrow an interval as more items would; if the run's answers do not tell how far, the
half-width is taken to be proportional to 1/√trials.
"""

from __future__ import annotations

from math import ceil, sqrt

from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError
from youden.pipeline.judged_run import PlannedRun
from youden.pipeline.precision import known_parts
from youden.protocol.designs.adaptive import SHARE
from youden.protocol.extension import LEAST_SLOTS
from youden.stats.forecast import OwnVariances, at_share, half_widths, items_for, slots_for
from youden.types import PAIRED, Plan


def calls_for_all(folder: RunFolder, width: float) -> tuple[int, float]:
    """Return the further calls that give nine in ten agents of a run ± `width`, and the half-width that they give.

    Raises: ConfigError [extend-width].
    """
    parts, plan = known_parts(folder), folder.read_plan()
    if parts is None or plan.rounds is not None:
        remedy = (
            "Write `width:` into its config and run it again." if plan.rounds is not None else "Give a number of calls."
        )
        raise ConfigError(
            f"How many calls ± {width:g} takes can be told of a cyclic run that was not extended. {remedy}",
            slug="extend-width",
        )
    K, J, now = plan.n_agents, plan.n_items, int(plan.slot.max()) + 1
    need = slots_for(parts, width, share=SHARE, n_items=J, most=(K - 1) * J)
    if need is None:
        raise _out_of_reach(parts, width, share=SHARE, plan=plan)
    if need <= now:
        have = at_share(half_widths(parts, now, J), SHARE)
        raise ConfigError(
            f"Nine in ten agents have ± {have:.3f} already. Give a width below that.", slug="extend-width"
        )
    return (need - now) * K, at_share(half_widths(parts, need, J), SHARE)


def calls_for_joining(
    run: PlannedRun, asked: Plan, width: float, *, n_joined: int, n_paired_each: float, expected: float
) -> int:
    """Return the calls that give agents that join ± `width`.

    Parameters
    ----------
    run, asked : PlannedRun, Plan
        The run with these agents at the usual number of calls, and these calls alone.
    width : float
        Half-width wanted.
    n_joined, n_paired_each, expected : int, float, float
        Agents that join, paired trials that score each, and the half-width that these give.

    Raises
    ------
    ConfigError
        [extend-width] if no number of calls on these items gives it.
    """
    parts, plan = known_parts(run.folder), run.plan
    ratio = (expected / width) ** 2
    if parts is not None:
        need = slots_for(parts, width, share=1.0, n_items=plan.n_items, most=(plan.n_agents - 1) * plan.n_items)
        if need is None:
            raise _out_of_reach(parts, width, share=1.0, plan=plan)
        ratio = need / max(1, round(n_paired_each / 2))
    n_paired = int((asked.arm == PAIRED).sum())
    paired = max(ceil(ratio * n_paired), LEAST_SLOTS * 2 * n_joined)
    return 2 * paired if asked.independent == "twin" else paired + len(asked) - n_paired


def _out_of_reach(parts: OwnVariances, width: float, *, share: float, plan: Plan) -> ConfigError:
    n_items = items_for(parts, width, share=share, n_agents=plan.n_agents)
    items = "" if n_items is None else f": it takes about {n_items:,} items like them"
    return ConfigError(
        f"± {width:g} cannot be had on {plan.n_items:,} items, whatever is asked{items}. "
        "Extend the run by items first, or give a wider width.",
        slug="extend-width",
    )


def expected_half_width(run: PlannedRun, n_trials: float) -> float | None:
    """Return the widest half-width of the agents that are ranked already, had they `n_trials` paired trials each."""
    parts = known_parts(run.folder)
    if parts is not None:
        return float(half_widths(parts, max(1, round(n_trials / 2)), run.plan.n_items).max())
    known = [
        (row.high - row.low) / 2 * sqrt(row.n_trials)
        for row in run.folder.read_ranking()
        if row.low is not None and row.high is not None
    ]
    return max(known) / sqrt(n_trials) if known else None
