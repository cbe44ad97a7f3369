"""Write the report of an audit of a table of scores, and its tables, to a folder."""

from __future__ import annotations

import json
from pathlib import Path

from youden.data.folder.csv_tables import write_items, write_ranking
from youden.pipeline.score_audit import Audit
from youden.report.data.ranking_tables import add_report_columns
from youden.report.pages import embed
from youden.report.pages.writing import write_file
from youden.types.columns import TableColumn

RESIDUAL = TableColumn(
    "residual", "number", "root mean square of the residuals of its scores, in the unit of the table"
)


def write_audit(audit: Audit, folder: Path) -> Path:
    """Write the files of an audit, a ranking of existing scores: report.html, ranking.csv, items.csv and audit.json.

    folder : folder to write to, which is created if it does not exist

    Returns the path of the report.
    """
    folder.mkdir(parents=True, exist_ok=True)
    scripts = embed.load_scripts("page.js", charts=False)
    page = embed.get_environment().get_template("audit.html")
    ranking = add_report_columns(audit.rows, None, audit.facts.choice)
    policy = embed.make_policy(scripts, is_served=False)
    text = page.render(audit=audit, ranking=ranking, scripts=scripts, policy=policy, home=None)
    path = folder / "report.html"
    write_file(path, text)
    write_ranking(folder / "ranking.csv", audit.ranking)
    write_items(folder / "items.csv", audit.items, [RESIDUAL])
    write_file(folder / "audit.json", json.dumps(audit.to_json(), indent=1, allow_nan=False) + "\n")
    return path
