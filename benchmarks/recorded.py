"""Read the paper's recorded judge answers, and use them to answer plans.

The data lie outside the repository, in a folder that `--shared` sets.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from youden.data.importers.peer_prediction import import_results
from youden.study.replaying import RecordedAnswers, make_recorded_answers
from youden.types.pool import Floats
from youden.types.results import Rates

SHARED = Path(__file__).parents[2] / "shared"
DOMAINS = {
    "PubMed": "pubmed_200_config_results",
    "ICLR": "peer_review_results_100",
    "SAMSum": "samsum_200_config_results",
    "OPUS": "opus_translation_results",
}


def read_rates(domain: str, shared: Path = SHARED) -> Rates:
    """Read the rates of a domain from `shared`, the folder that contains peer-prediction; exit if it is not there."""
    folder = shared / "peer-prediction" / "eval_results" / DOMAINS[domain]
    if not folder.is_dir():
        sys.exit(
            f"Recorded judge answers are missing: no folder {folder}. Set their place with --shared, or run git clone --depth 1 "
            f"https://github.com/zrobertson466920/llm-peer-prediction {shared / 'peer-prediction'}"
        )
    return import_results(folder).rates


def load_recorded_answers(domain: str, shared: Path = SHARED) -> RecordedAnswers:
    """Load a domain as recorded answers, of which only D = TPR − FPR is known."""
    return make_recorded_answers(read_rates(domain, shared), difference_only=True)


def read_answers(domain: str, shared: Path = SHARED) -> Floats:
    """Read D of a domain as float array (n_items, n_agents, n_agents); 0 for pairs without an answer."""
    return np.nan_to_num(load_recorded_answers(domain, shared).paired)


def compute_dense_abilities(D: Floats) -> Floats:
    """Compute the centered symmetric abilities (n_agents,) from all answers.

    D : float array (n_items, n_agents, n_agents); its diagonal is ignored
    """
    D = np.where(np.eye(D.shape[1], dtype=np.bool_), 0.0, D)
    theta = (D.sum(axis=(0, 2)) + D.sum(axis=(0, 1))) / (2 * (D.shape[1] - 1) * len(D))
    return np.asarray(theta - theta.mean())
