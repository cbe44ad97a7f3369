"""Imports HELM's runs (`scenario_state.json`, as `helm-run` of crfm-helm 0.5 writes it): agents are models, items are instances.

It reads the completions, and leaves references, scores and statistics out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from youden.data.importers.joining import ImportedPool, Joiner
from youden.data.importers.reading import as_list, as_object, files_of, inner, read_json
from youden.data.importers.telling_apart import distinct
from youden.nouns import Json

STATE = "scenario_state.json"
_MODEL = re.compile(r"(?<=[:,])(model|model_deployment)=[^,]*,?")


def read_helm(paths: Sequence[Path], /, *, columns: Mapping[str, str]) -> ImportedPool:
    """One agent a model, named by its folder too where a model did one scenario several times; items are instance ids, with the
    scenario before them if there are several.

    Of several completions or trials the first is taken, the others are dropped. Requests that only score a given answer are left
    out. A perturbed instance is an item of its own.

    Raises: ImportFormatError naming file and request.
    """
    files = files_of(paths, (STATE,), what=f"a {STATE} of HELM")
    states = [as_object(read_json(file), file) for file in files]
    scenarios = [_scenario(file) for file in files]
    runs = [f"{inner(state, 'adapter_spec', 'model')}\0{said}" for state, said in zip(states, scenarios, strict=True)]
    names = distinct(runs, [file.parent for file in files])
    joiner = Joiner(paths[0].stem)
    for file, state, scenario, name in zip(files, states, scenarios, names, strict=True):
        agent = name.replace(f"\0{scenario}", "")
        for number, request in enumerate(as_list(state.get("request_states"), f"{file}, request_states"), 1):
            place = f"{file}, request {number}"
            completions = inner(request, "result", "completions")
            text = inner(completions, 0, "text")
            if inner(request, "reference_index") is not None:
                joiner.leave_out("no text: the request scores a given answer", place)
                continue
            if text is None:
                joiner.leave_out("the call failed", place)
                continue
            if isinstance(completions, list):
                joiner.drop(agent, "a further completion (the first is taken)", place, n=len(completions) - 1)
            if inner(request, "train_trial_index"):
                joiner.drop(agent, "a further trial (the first is taken)", place)
                continue
            item = _item(request, scenario if len(set(scenarios)) > 1 else None)
            joiner.add(agent, item, text, prompt=inner(request, "instance", "input", "text"), place=place)
    return joiner.pool()


def _scenario(file: Path) -> str:
    """The run's name without its model, such as `mmlu:subject=law`."""
    return _MODEL.sub("", file.resolve().parent.name).rstrip(":,")


def _item(request: Json, scenario: str | None) -> str | None:
    number = inner(request, "instance", "id")
    if number is None:
        return None
    changed = inner(request, "instance", "perturbation", "name")
    name = f"{number} ({changed})" if changed else str(number)
    return name if scenario is None else f"{scenario}/{name}"
