"""A run fitted block by block: the tables that `fit_run` writes, from trials that need not fit into memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import nan

import numpy as np

from youden.data.folder.run_folder import RunFolder
from youden.data.folder.trial_tables import verdict_blocks
from youden.engines.block_sums import Means, Tallied, means, tallied
from youden.engines.trial_blocks import TrialsByItem, trials_by_item
from youden.errors import ConfigError
from youden.nouns import PartnerRules, Plan, StandingFacts, StandingName, Target
from youden.nouns.facts import CallCounts
from youden.run.ability import METHODS, TRIALS, Abilities
from youden.run.analysis import assembled, judged_parts, sign
from youden.run.estimators import answers_of, few_lost, fitted_abilities
from youden.run.partner_rules import partner_rules
from youden.run.ranking import Estimated, warnings_of
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.stats.additive.observed_cells import agent_components
from youden.stats.additive.trial_fit import PairBlock

BYTES_OF_A_TRIAL = 250
"""What arrays take at their peak, measured on a cyclic run of ten million trials."""

NOT_MADE = StandingFacts((), None, 0, (), message="Blocks of items do not make it; `youden fit --engine arrays` does.")


def left_to_arrays(plan: Plan, target: Target, rules: PartnerRules) -> str | None:
    """Why blocks of items do not fit this run, in words; None where it does."""
    if rules.ranked_by != "plain":
        return f"a run that is ranked by `{rules.ranked_by}`"
    if plan.rounds is not None:
        return "an adaptive run"
    if plan.extensions is not None:
        return "a run that was extended"
    if target == "items-and-judges":
        return "target: items-and-judges, which ranks by each judge's own answers"
    if target == "these-items" and plan.split.train.all():
        return "target: these-items of a run whose trials may stand in slots"
    return None


def fit_in_blocks(folder: RunFolder, *, target: Target, rules: PartnerRules | None = None, rates: bool = False) -> None:
    """Write every table of a judged run, from the files of its answers; rates.parquet only where `rates` is said.

    rules: as of `fit_run`; rankings beside the plain one are left to arrays, and fit.json says so.

    Raises: RunFolderError, [engine-full] where the disk is full; ConfigError [engine-refused] for what only arrays do.
    """
    plan, of = folder.judged_files()
    rules = partner_rules(folder, agents := folder.read_pool().agents, rules)
    if why := left_to_arrays(plan, target, rules):
        raise ConfigError(
            f"Blocks of items cannot fit {why}. Say --engine arrays, on a machine with about "
            f"{len(of) * BYTES_OF_A_TRIAL / 1e9:.1f} GB free for these {len(of):,} trials.",
            slug="engine-refused",
        )
    groups = {agent.id: agent.group for agent in agents}
    with folder.fitting() as fresh:
        rows, counts = verdict_blocks(of, plan), CallCounts(plan, of.said.measured)
        with trials_by_item(lambda: (some.again() for some in rows), plan, folder.path, calls=counts) as trials:
            sums = tallied(trials.blocks(), plan, trials.apart)
            if rates:
                fresh.write_rates_of_items(((block.start, block.rates()) for block in trials.blocks()), plan)
            model = ClippedLinear().fit(sums.symmetric)
            by_trials = bool(plan.split.train.all()) and trials.slots is not None and few_lost(*trials.slots)
            if by_trials:
                found = _abilities(means(trials.blocks(), sums), sums, target)
            else:
                answers = partial(_answers, trials, plan, sums.apart.clean_rate)
                found = fitted_abilities(model, sums.symmetric, answers, fpr=sums.apart.rate, target=target)
        tried = nan if of.said.usd_tried is None else of.said.usd_tried
        component = model.component_
        if by_trials:
            agent, item = np.nonzero(sums.seen)
            component = agent_components(agent, item, n_agents=plan.n_agents, n_items=plan.n_items)
        learned = Estimated(
            split=plan.split,
            scores=sums.symmetric,
            holdout=sums.holdout,
            model=model,
            found=found,
            component=component,
        )
        tables = assembled(
            learned,
            row=sums.row,
            pairs=sums.pairs,
            n_trials=sums.item_trials,
            fpr=sums.apart.rate,
            calls=counts.facts(models=of.said.models, usd_tried=tried),
            warnings=warnings_of(of.said.warnings, trials.yeses.alarms(), plan, message=model.message_),
            rules=rules,
            standings=_left_out(rules),
            groups=groups,
        )
        parts = judged_parts(plan, of.said.judge, of.said.models, digest=of.said.plan_digest, n_trials=len(of))
        tables.write(fresh, sign(tables.facts, parts), run=folder.path.resolve().name)


def _answers(trials: TrialsByItem, plan: Plan, pooled: float) -> Iterator[PairBlock]:
    """What `answers_of` gives, block by block. pooled: the rate that is taken off where pairs have none of their own."""
    twins = plan.independent == "twin"
    for block in trials.blocks():
        for one in answers_of(block.rates(clean=True), block.split, drawn=twins)():
            yield one if twins else one._replace(value=one.value - pooled)


def _left_out(rules: PartnerRules) -> dict[StandingName, StandingFacts]:
    """The rankings beside the plain one that arrays would make."""
    asked: dict[StandingName, bool] = {"robust": True, "family": bool(rules.families), "trusted": bool(rules.trusted)}
    return {name: NOT_MADE for name, wanted in asked.items() if wanted}


def _abilities(of: Means, sums: Tallied, target: Target) -> Abilities:
    method = METHODS[target] if of.enough else "none: fewer than 3 agents have trials in 2 items"
    if not sums.apart.n_trials:
        method += "; FPR taken as 0: no independent trial answered"
    return Abilities(of.ability, of.covariance, of.n_trials.astype(np.int32), of.fpr, TRIALS, method, target)
