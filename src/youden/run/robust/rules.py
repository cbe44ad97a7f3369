"""Whose word counts in a run: what was asked for, else what its folder remembers, and the families that its agents say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from youden.data.folder.run_config import RunConfig
from youden.data.folder.run_folder import RunFolder
from youden.nouns import Agent, PartnerRules, RankedBy
from youden.run.robust.standings import check_rules


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
