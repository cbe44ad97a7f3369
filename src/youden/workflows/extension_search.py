"""Plan the rounds of a search in a judged run: further calls on the agents that may be the best.

Each round is a step of an extension, so that the folder is complete after each, and the same command resumes the search.
"""

from __future__ import annotations

from math import ceil

import numpy as np

from youden.data.folder.extension_steps import ExtensionRequest, ExtensionStep
from youden.data.folder.run_config import RunConfig
from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError
from youden.pipeline.abilities import LEVEL, choice_among
from youden.pipeline.interim_analyses import first_look
from youden.pipeline.ranking import standing_of
from youden.pipeline.recommendation import no_signal
from youden.protocol.designs.adaptive import ROUNDS, contenders
from youden.stats.trials.best_selection import choice, comparable, wanting
from youden.stats.trials.comparisons import differences


def plan_search_round(config: RunConfig, request: ExtensionRequest, *, number: int, spent: int) -> ExtensionStep | str:
    """Plan the next round of a search.

    Without a bound on the regret, calls are spread over `ROUNDS` on fewer and fewer contenders. With one, a round spends on the
    agents that keep the bound from being reached as many calls as they seem to need; if the run meets the bound before its
    search, there is no round.

    Parameters
    ----------
    config : RunConfig
        Config of the run.
    request : ExtensionRequest
        Options of the search.
    number, spent : int
        Rounds and calls of the search so far.

    Returns
    -------
    ExtensionStep or str
        The round, or the reason why there is none.

    Raises
    ------
    ConfigError
        [extend-search].
    """
    folder = RunFolder(config.folder)
    result = folder.read_verdicts(folder.read_plan())
    plan, top, within = result.plan, request.top or 1, request.within
    if top >= plan.n_agents:
        raise ConfigError(
            f"A search for the {top} best of {plan.n_agents} agents selects all of them: got top = {top}. Set a smaller number.",
            slug="extend-search",
        )
    found = standing_of(result, target=config.target)
    if reason := no_signal(result, found):
        return reason
    told = differences(found.ability, found.covariance, level=LEVEL)
    if not comparable(told):
        raise ConfigError(
            "Some agents cannot be compared with the leader. Extend the run by calls first.", slug="extend-search"
        )
    arms = 2 if plan.independent == "twin" else 1
    left = np.inf if request.calls is None else request.calls - spent
    if within is None:
        active, asked = contenders(found.ability, top, (number + 1) / ROUNDS), left / max(ROUNDS - number, 1)
    else:
        search = found.search if found.search is not None and found.search.top == top else None
        look = first_look(found, top=top, within=within) if search is None else search.looks[-1]
        said = choice(found.ability, found.covariance, told, top=top) if search is None else choice_among(found, told)
        if said is not None and said.within <= within:
            return "those named are near enough to the best"
        active, more, _ = wanting(told, look.end, top=top, share=look.hoped_share, goal=within)
        asked = min(left, active.sum() * ceil(more * float(found.n_trials[active].max())) * arms)
    over = within is None and number == ROUNDS
    if over or asked < 2 * active.sum() * arms:
        return "the calls are spent"
    focus = [plan.agent_ids[k] for k in np.flatnonzero(active)]
    return ExtensionStep(calls=int(asked), focus=focus, top=top, within=within)
