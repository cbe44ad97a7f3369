"""Estimate mean labels of agents by methods that `quality.py` compares with the estimates of quality."""

from __future__ import annotations

import numpy as np

Labels = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Agent, item and value of each label, three arrays (n_labels,)."""


def compute_label_means(labels: Labels, n_agents: int) -> tuple[np.ndarray, np.ndarray]:
    """Compute the mean and the number of labels per agent, arrays (n_agents,)."""
    agent, _, value = labels
    n = np.bincount(agent, minlength=n_agents)
    return np.bincount(agent, weights=value, minlength=n_agents) / np.maximum(n, 1), n


def fit_normal_fay_herriot(mean: np.ndarray, n: np.ndarray, x: np.ndarray | None = None) -> np.ndarray:
    """Fit the Fay–Herriot model with normal effects by EM, and return the estimates (n_agents,).

    mean, n : float and int array (n_agents,)
        Label means and counts, all positive.
    x : float array (n_agents,), optional
        Covariate.
    """
    n_agents = len(mean)
    X = np.ones((n_agents, 1)) if x is None else np.c_[np.ones(n_agents), (x - x.mean()) / x.std()]
    pooled_variance = max(mean.mean() * (1 - mean.mean()), 0.02)
    sampling_variance, effect_variance, estimate = pooled_variance / n, 0.02, mean
    for _ in range(50):
        weight = 1 / (effect_variance + sampling_variance)
        fitted = X @ np.linalg.lstsq((X.T * weight) @ X, (X.T * weight) @ mean, rcond=None)[0]
        shrinkage = effect_variance / (effect_variance + sampling_variance)
        effect = shrinkage * (mean - fitted)
        effect_variance = max(float(np.mean(effect**2 + shrinkage * sampling_variance)), 1e-5)
        estimate = fitted + effect
        p_win = np.clip(estimate, 0.01, 0.99)
        sampling_variance = p_win * (1 - p_win) / n
    return estimate


def compute_prediction_powered_means(labels: Labels, cells: np.ndarray) -> np.ndarray:
    """Compute power-tuned prediction-powered means (n_agents,).

    λ·(mean of all scores − mean of the labeled scores) + mean label, with λ = cov(y, f) / ((1 + n/N)·var f).
    cells : float array (n_agents, n_items), NaN if unobserved
    """
    agent, item, value = labels
    estimates = np.zeros(len(cells))
    for row_number, scores in enumerate(cells):
        is_own = agent == row_number
        labels_of_agent, scores_of_agent = value[is_own], scores[item[is_own]]
        is_observed = ~np.isnan(scores_of_agent)
        y_mean = labels_of_agent.mean()
        observed_scores = scores[~np.isnan(scores)]
        if is_observed.sum() > 2 and (score_variance := observed_scores.var()) > 0:
            weight = np.cov(labels_of_agent[is_observed], scores_of_agent[is_observed])[0, 1] / (
                (1 + is_observed.sum() / len(observed_scores)) * score_variance
            )
            y_mean += np.clip(weight, 0, 1) * (observed_scores.mean() - scores_of_agent[is_observed].mean())
        estimates[row_number] = y_mean
    return estimates


def fit_additive_items(labels: Labels, n_agents: int) -> np.ndarray:
    """Estimate agents' means net of item effects (n_agents,) by least squares with a small ridge, on the scale of label means."""
    agent, item, value = labels
    _, item_index = np.unique(item, return_inverse=True)
    design = np.zeros((len(value), n_agents + item_index.max() + 1))
    design[np.arange(len(value)), agent] = 1
    design[np.arange(len(value)), n_agents + item_index] = 1
    ridge = np.r_[np.full(n_agents, 1e-6), np.full(item_index.max() + 1, 1e-3)]
    return np.linalg.solve(design.T @ design + np.diag(ridge), design.T @ value)[:n_agents]
