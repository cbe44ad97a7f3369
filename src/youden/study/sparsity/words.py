"""What a sparsity study supports, in words, and its JSON."""

from __future__ import annotations

from dataclasses import asdict

from youden.nouns import Json
from youden.study.sparsity.curves import HEADLINE, SparsityRow, SparsityStudy


def sparsity_words(study: SparsityStudy) -> tuple[str, ...]:
    """The headline regime against dense, cells apart from calls, and what could not be drawn."""
    said = [
        f"Holdout rule `{study.rule}`: "
        + (
            "no trial that touches a held-out cell entered training."
            if study.rule == "shared"
            else "calls of held-out cells entered their partners' scores (the paper's rule), which flatters the holdout."
        )
    ]
    headline = next((row for row in study.rows if row.label == HEADLINE.label), None)
    if headline is not None and headline.rmse and study.dense.rmse and headline.rho and headline.of_all:
        change = headline.rmse.mean / study.dense.rmse.mean - 1
        said.append(
            f"{headline.label}: {headline.of_all.mean:.1%} of all cells, holdout RMSE {headline.rmse.mean:.4f} against "
            f"{study.dense.rmse.mean:.4f} dense ({change:+.1%}), ρ {headline.rho.mean:.3f} to the dense training fit."
        )
    if headline is not None and headline.calls_unordered and study.dense.calls_unordered and headline.of_train:
        share = headline.calls_unordered.mean / study.dense.calls_unordered.mean
        said.append(
            f"Cells are not calls: its {headline.of_train.mean:.0%} of the training cells take {share:.0%} of the training "
            "pairs, for a cell is compared with every other agent on its item."
        )
    said += [f"{row.label} cannot be drawn: {row.why}" for row in study.rows if row.why is not None]
    return tuple(said)


def sparsity_json(study: SparsityStudy) -> dict[str, Json]:
    """One run's entry in the `--json` of `youden study sparsity`."""
    return {
        "n_agents": study.n_agents,
        "n_items": study.n_items,
        "rule": study.rule,
        "scores": study.kind,
        "holdout": study.holdout,
        "dense": _row(study.dense),
        "regimes": [_row(row) for row in study.rows],
        "words": list(sparsity_words(study)),
    }


def _row(row: SparsityRow) -> dict[str, Json]:
    return {name: value for name, value in asdict(row).items() if value is not None}
