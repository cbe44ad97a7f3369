"""Whose word counts in a run: what was asked for, else what its folder remembers, and the families that its agents say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from youden.data.folder.run_config import RunConfig
from youden.data.folder.run_folder import RunFolder
from youden.errors import StatisticsError
from youden.nouns import Agent, PartnerRules, RankedBy
from youden.nouns.pool import Ids


def partner_rules(folder: RunFolder, agents: Sequence[Agent], wanted: PartnerRules | None) -> PartnerRules:
    """The rules to fit by, remembered in config.yaml. An import has no config: its fit.json remembers.

    Raises: StatisticsError, as `check_rules`.
    """
    ids = [agent.id for agent in agents]
    rules = wanted or remembered(folder) or PartnerRules()
    check_rules(rules, ids)
    if wanted is not None and folder.has("config.yaml") and rules_of(config := folder.read_config()) != wanted:
        kept = {
            "robust": wanted.ranked_by == "robust",
            "trusted": list(wanted.trusted),
            "families": dict(wanted.families),
            "clones": [list(cluster) for cluster in wanted.clones],
        }
        folder.write_config(config.model_copy(update=kept))
    if not rules.families:
        said = {agent.id: family for agent in agents if isinstance(family := agent.meta.get("family"), str) and family}
        rules = replace(rules, families=said)
    return rules


def remembered(folder: RunFolder) -> PartnerRules | None:
    """What the folder was fitted by, or is to be; None before the first fit of an import."""
    if folder.has("config.yaml"):
        return rules_of(folder.read_config())
    if not folder.has("fit.json"):
        return None
    facts = folder.read_facts()
    return PartnerRules(facts.ranked_by, facts.trusted, facts.families)


def rules_of(config: RunConfig) -> PartnerRules:
    """As a run's config has them."""
    head: RankedBy = "trusted" if config.trusted else "robust" if config.robust else "plain"
    clones = tuple(tuple(cluster) for cluster in config.clones)
    return PartnerRules(head, tuple(config.trusted), config.families, clones)


def changed_rules(
    folder: RunFolder,
    *,
    robust: bool | None = None,
    trusted: Sequence[str] | None = None,
    families: Mapping[str, str] | None = None,
) -> PartnerRules | None:
    """What the folder remembers with these changes; None where nothing changes. A panel or `robust` takes the other's place."""
    if robust is None and trusted is None and families is None:
        return None
    rules = remembered(folder) or PartnerRules()
    if families is not None:
        rules = replace(rules, families=dict(families))
    if trusted is not None:
        rules = replace(rules, trusted=tuple(trusted), ranked_by="trusted")
    elif robust is not None:
        rules = replace(rules, trusted=(), ranked_by="robust" if robust else "plain")
    return rules


def check_rules(rules: PartnerRules, agent_ids: Sequence[str]) -> None:
    """Refuse rules that speak of agents that are not there, or leave nobody to score.

    Raises: StatisticsError [families-unknown], [one-family], [trusted-unknown], [panel-small].
    """
    _known("families", rules.families, agent_ids)
    _known("trusted", rules.trusted, agent_ids)
    if len(set(rules.trusted)) == 1 or (rules.ranked_by == "trusted" and not rules.trusted):
        raise StatisticsError(
            f"A trusted panel of {len(set(rules.trusted))} cannot score its own members. Name 2 agents or more.",
            slug="panel-small",
        )
    if rules.families and len(np.unique(family_labels(rules.families, agent_ids))) < 2:
        raise StatisticsError(
            f"All {len(agent_ids)} agents are of the family {next(iter(rules.families.values()))!r}, so no other family can "
            "score them. Name two families or more, or leave families out.",
            slug="one-family",
        )


def family_labels(families: Mapping[str, str], agent_ids: Sequence[str]) -> Ids:
    """A number for each agent's family: int32[K]; an agent without one is a family of its own."""
    names = [("family", families[agent]) if agent in families else ("agent", agent) for agent in agent_ids]
    order = {name: n for n, name in enumerate(dict.fromkeys(names))}
    return np.array([order[name] for name in names], dtype=np.int32)


def _known(what: str, said: Mapping[str, str] | Sequence[str], ids: Sequence[str]) -> None:
    if unknown := [agent for agent in said if agent not in set(ids)]:
        raise StatisticsError(
            f"{what} names agents that are not in this run: {', '.join(unknown[:5])}. It has: {', '.join(ids[:10])}"
            f"{' …' if len(ids) > 10 else ''}.",
            slug=f"{what}-unknown",
        )
