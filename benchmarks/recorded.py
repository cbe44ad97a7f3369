"""The paper's recorded judge answers, which lie beside the project: where they are, and as worlds that answer plans."""

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


def rates_of(domain: str, shared: Path = SHARED) -> Rates:
    """shared: the folder that holds peer-prediction."""
    folder = shared / "peer-prediction" / "eval_results" / DOMAINS[domain]
    if not folder.is_dir():
        sys.exit(
            f"Recorded judge answers are not in {shared}. Say where by --shared, or get them: git clone --depth 1 "
            f"https://github.com/zrobertson466920/llm-peer-prediction {shared / 'peer-prediction'}"
        )
    return import_results(folder).rates


def world_of(domain: str, shared: Path = SHARED) -> RecordedAnswers:
    return make_recorded_answers(rates_of(domain, shared), difference_only=True)


def answers_of(domain: str, shared: Path = SHARED) -> Floats:
    """D: float[J, K, K], 0 where nothing was asked."""
    return np.nan_to_num(world_of(domain, shared).paired)


def dense_abilities(D: Floats) -> Floats:
    """Centred symmetric abilities: float[K]. D: float[J, K, K], whose diagonals do not count."""
    D = np.where(np.eye(D.shape[1], dtype=np.bool_), 0.0, D)
    theta = (D.sum(axis=(0, 2)) + D.sum(axis=(0, 1))) / (2 * (D.shape[1] - 1) * len(D))
    return np.asarray(theta - theta.mean())
