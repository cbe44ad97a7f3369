"""Write the report of an audit of a table of scores, and its tables, to a folder."""

from __future__ import annotations

import json
from pathlib import Path

from youden.data.folder.csv_tables import write_items, write_ranking
from youden.data.importers.foreign_files import get_nested
from youden.errors import InputError
from youden.pipeline.score_audit import Audit
from youden.report.data.ranking_tables import add_report_columns
from youden.report.pages import embed
from youden.report.pages.writing import write_file
from youden.text.json_text import parse_json
from youden.types.columns import TableColumn

AUDIT_FILE = "audit.json"
RESIDUAL = TableColumn(
    "residual", "number", "root mean square of the residuals of its scores, in the unit of the table"
)


def check_audit_folder(folder: Path) -> None:
    """Check that an audit would replace only files that an earlier audit has written.

    Raises: InputError [audit-out] if `folder` contains a file that an audit would replace, but no audit.json of youden.
    """
    names = ("report.html", "ranking.csv", "items.csv", AUDIT_FILE)
    replaced_files = [name for name in names if (folder / name).exists()]
    if replaced_files and not _is_audit_file(folder / AUDIT_FILE):
        raise InputError(
            f"{folder} does not contain an audit, and an audit would replace files in it: got {replaced_files[0]}. Set --out to "
            "a new folder, or move these files.",
            slug="audit-out",
        )


def _is_audit_file(path: Path) -> bool:
    """Return whether a file was written by an earlier audit. Such a file is JSON, and contains a signature of youden."""
    try:
        content = parse_json(path.read_bytes()).value
    except (OSError, ValueError):
        return False
    return str(get_nested(content, "signature")).startswith("youden:")


def write_audit(audit: Audit, folder: Path) -> Path:
    """Write the files of an audit, which ranks agents by existing scores: report.html, ranking.csv, items.csv and audit.json.

    folder : folder to write to, which is created if it does not exist

    Returns the path of the report.
    """
    folder.mkdir(parents=True, exist_ok=True)
    scripts = embed.load_scripts("page.js", charts=False)
    template = embed.get_environment().get_template("audit.html")
    ranking = add_report_columns(audit.rows, pool=None, choice=audit.facts.choice)
    policy = embed.make_policy(scripts, is_served=False)
    html = template.render(audit=audit, ranking=ranking, scripts=scripts, policy=policy, home=None)

    # audit.json comes first: if the other files cannot be written, `check_audit_folder` accepts the folder for another try
    write_file(folder / AUDIT_FILE, json.dumps(audit.to_json(), indent=1, allow_nan=False) + "\n")
    path = folder / "report.html"
    write_file(path, html)
    write_ranking(folder / "ranking.csv", audit.ranking)
    write_items(folder / "items.csv", audit.items, [RESIDUAL])
    return path
