"""Make judged runs with known abilities, as rates and as run folders, for tests of studies."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Unpack

import numpy as np

from plan_options import PlanOptions
from small_pools import answer_with, make_pool
from youden import make_plan
from youden.data.folder.pool_summary import PoolSummary
from youden.data.folder.run_folder import RunFolder
from youden.pipeline.fit_tables import FitResult
from youden.pipeline.fitted_run import fit_run
from youden.study.replaying import RecordedAnswers, make_recorded_answers
from youden.types import PAIRED, Pool, Verdicts
from youden.types.facts import PartnerRules
from youden.types.pool import Floats


def verdicts(pool: Pool, *, seed: int = 0, noise: float = 0.3, **plan: Unpack[PlanOptions]) -> Verdicts:
    """Return verdicts with yes probabilities .5 + (a_i + a_k)/2 − b_j (paired) or .05; answers are graded by `noise`."""
    options: PlanOptions = {"design": "dense", "holdout": 0.0, **plan}
    created = make_plan(pool, seed=seed, **options)
    rng = np.random.default_rng(seed)
    ability = np.linspace(0.4, -0.4, pool.n_agents)
    difficulty = np.linspace(-0.1, 0.1, pool.n_items)
    mean = 0.5 + (ability[created.first] + ability[created.second]) / 2 - difficulty[created.item]
    mean = np.where(created.trial_type == PAIRED, mean, 0.05)
    return answer_with(created, np.clip(mean + noise * rng.standard_normal(len(created)), 0, 1))


def published_scores(peer_prediction: Path, folder: str) -> Floats:
    """Return the scores of the paper, float (K, J): means over partners; failed calls are 0 as published."""
    place = peer_prediction / "eval_results" / folder / "tvd_mi_individual_examples"
    files = sorted(place.glob("tvd_mi_example_*.json"))
    return np.array([json.loads(file.read_bytes())["tvd_mi_scores"] for file in files]).T


def dense_world(n_agents: int = 8, n_items: int = 20, *, seed: int = 0) -> RecordedAnswers:
    pool = make_pool(n_agents, n_items)
    groups = {agent.id: agent.group for agent in pool.agents}
    return make_recorded_answers(verdicts(pool, seed=seed).rates(), groups=groups, difference_only=False)


def analyzed(result: Verdicts, rules: PartnerRules | None = None) -> FitResult:
    """Return all tables of a run with these answers, from a temporary folder."""
    with TemporaryDirectory() as place:
        result_of_fit = fit_run(write_answers(Path(place), result.plan.pool, result), rules=rules)
        assert isinstance(result_of_fit, FitResult)
        return result_of_fit


FITTED: dict[tuple[tuple[str, bytes], ...], dict[str, bytes]] = {}
"""Results of fits by their input files, reused by tests with the same input."""


def fit_once(folder: RunFolder) -> None:
    """Fit a run, or copy the files of an equal one."""
    before = {file.name: file.read_bytes() for file in folder.path.iterdir()}
    place = str(folder.path.parent).encode()
    same = tuple((name, content.replace(place, b"")) for name, content in sorted(before.items()))
    if same not in FITTED:
        fit_run(folder)
        after = {file.name: file.read_bytes() for file in folder.path.iterdir()}
        FITTED[same] = {name: content for name, content in after.items() if before.get(name) != content}
        return
    for name, content in FITTED[same].items():
        folder.file(name).write_bytes(content)


def write_answers(path: Path, pool: Pool, result: Verdicts) -> RunFolder:
    """Write the folder of a judged run without a fit."""
    folder = RunFolder(path)
    folder.write_pool(PoolSummary.from_pool(pool, source="made up"))
    folder.write_plan(result.plan)
    folder.write_verdicts(result)
    return folder


def write_run(
    path: Path, *, n_agents: int = 8, n_items: int = 20, seed: int = 0, **plan: Unpack[PlanOptions]
) -> RunFolder:
    """Write the folder of a judged and fitted run, dense unless `plan` is given."""
    pool = make_pool(n_agents, n_items)
    folder = write_answers(path, pool, verdicts(pool, seed=seed, **plan))
    fit_once(folder)
    return folder
