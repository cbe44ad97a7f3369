"""A run fitted in a database: the tables that `fit_run` writes, from trials that need not fit into memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from youden.data.folder.run_folder import RunFolder
from youden.engines.database import MEMORY, blocks, columns, database, load_trials
from youden.engines.tallying import Means, Tallied, alarms, apart_sums, call_facts, means, tallied
from youden.errors import ConfigError
from youden.nouns import PartnerRules, Plan, StandingFacts, StandingName, Target
from youden.run.ability import METHODS, TRIALS, Abilities
from youden.run.analysis import assembled, judged_parts, sign
from youden.run.estimators import answers_of, few_lost, fitted_abilities
from youden.run.partner_rules import partner_rules
from youden.run.ranking import Estimated, warnings_of
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.stats.additive.observed_cells import agent_components
from youden.stats.additive.trial_fit import PairBlock

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

BYTES_OF_A_TRIAL = 250
"""What arrays take at their peak, measured on a cyclic run of ten million trials."""

NOT_MADE = StandingFacts(
    (), None, 0, (), message="The engine duckdb does not make it; `youden fit --engine arrays` does."
)


def left_to_arrays(plan: Plan, target: Target, rules: PartnerRules) -> str | None:
    """Why the database does not fit this run, in words; None where it does."""
    if rules.ranked_by != "plain":
        return f"a run that is ranked by `{rules.ranked_by}`"
    if plan.rounds is not None:
        return "an adaptive run"
    if plan.extensions is not None:
        return "a run that was extended"
    if target == "these-items" and plan.split.train.all():
        return "target: these-items of a run whose trials may stand in slots"
    return None


def fit_in_database(
    folder: RunFolder, *, target: Target, rules: PartnerRules | None = None, memory: str = MEMORY, rates: bool = False
) -> None:
    """Write every table of a judged run, from the files of its answers; rates.parquet only where `rates` is said.

    rules: as of `fit_run`; rankings beside the plain one are left to arrays, and fit.json says so.

    Raises: RunFolderError; ConfigError [engine-duckdb], [engine-memory], [engine-refused] for what only arrays do.
    """
    plan, of = folder.judged_files()
    rules = partner_rules(folder, agents := folder.read_pool().agents, rules)
    if why := left_to_arrays(plan, target, rules):
        raise ConfigError(
            f"The engine duckdb does not fit {why}. Say --engine arrays, on a machine with about "
            f"{len(of) * BYTES_OF_A_TRIAL / 1e9:.1f} GB free for these {len(of):,} trials.",
            slug="engine-refused",
        )
    groups = {agent.id: agent.group for agent in agents}
    with folder.fitting() as fresh:
        with database(folder.path, memory=memory) as connection:
            load_trials(connection, of.files, plan)
            sums = tallied(blocks(connection, plan), plan, apart_sums(connection, plan))
            if rates:
                fresh.write_rates_of_items(((block.start, block.rates()) for block in blocks(connection, plan)), plan)
            model = ClippedLinear().fit(sums.symmetric)
            by_trials = bool(plan.split.train.all()) and _in_slots(connection)
            if by_trials:
                found = _abilities(means(blocks(connection, plan), sums), sums, target)
            else:
                answers = partial(_answers, connection, plan, sums.apart.clean_rate)
                found = fitted_abilities(model, sums.symmetric, answers, fpr=sums.apart.rate, target=target)
            calls = call_facts(connection, plan, n_cells=sums.n_cells, models=of.said.models, measured=of.said.measured)
            rung = alarms(connection, plan.n_agents)
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
            calls=calls,
            warnings=warnings_of(of.said.warnings, rung, plan, message=model.message_),
            rules=rules,
            standings=_left_out(rules),
            groups=groups,
        )
        parts = judged_parts(plan, of.said.judge, of.said.models, digest=of.said.plan_digest, n_trials=len(of))
        tables.write(fresh, sign(tables.facts, parts), run=folder.path.resolve().name)


def _answers(connection: DuckDBPyConnection, plan: Plan, pooled: float) -> Iterator[PairBlock]:
    """What `answers_of` gives, block by block. pooled: the rate that is taken off where pairs have none of their own."""
    twins = plan.independent == "twin"
    for block in blocks(connection, plan):
        for one in answers_of(block.rates(clean=True), block.split, drawn=twins)():
            yield one if twins else one._replace(value=one.value - pooled)


def _left_out(rules: PartnerRules) -> dict[StandingName, StandingFacts]:
    """The rankings beside the plain one that arrays would make."""
    asked: dict[StandingName, bool] = {"robust": True, "family": bool(rules.families), "trusted": bool(rules.trusted)}
    return {name: NOT_MADE for name, wanted in asked.items() if wanted}


def _in_slots(connection: DuckDBPyConnection) -> bool:
    """Whether every paired trial stands in a slot, and few of any agent's in slots that were begun lack an answer."""
    found = columns(connection, "SELECT count(*) AS n, count(slot) AS n_slots, count(answer) AS n_answered FROM paired")
    if not found["n"][0] or found["n_slots"][0] != found["n"][0]:
        return False
    if found["n_answered"][0] == found["n"][0]:
        return True
    of_agents = columns(
        connection,
        """SELECT agent, sum(asked)::BIGINT AS asked, sum(answered)::BIGINT AS answered
        FROM (SELECT unnest([first, second]) AS agent, asked, answered
              FROM (SELECT first, second, count(*) AS asked, count(answer) AS answered FROM paired
                    SEMI JOIN (SELECT DISTINCT slot FROM paired WHERE answer IS NOT NULL) AS begun USING (slot)
                    GROUP BY first, second))
        GROUP BY agent""",
    )
    return few_lost(of_agents["asked"], of_agents["answered"])


def _abilities(of: Means, sums: Tallied, target: Target) -> Abilities:
    method = METHODS[target] if of.enough else "none: fewer than 3 agents have trials in 2 items"
    if not sums.apart.n_trials:
        method += "; FPR taken as 0: no independent trial answered"
    return Abilities(of.ability, of.covariance, of.n_trials.astype(np.int32), of.fpr, TRIALS, method, target)
