"""Store the results of `youden calibrate` beside the runs, so that runs by the same judge can show them.

All calibrations of a folder of runs are in its `calibrations.json`: one record for each judge and pool.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import JsonValue, TypeAdapter

from youden.data.atomic import replacing
from youden.data.folder.run_files import VERSION, StrictFile, parse
from youden.types.pool import Json

CALIBRATIONS = "calibrations.json"
DEFAULT_RUNS = Path("runs")


class CalibrationRecord(StrictFile):
    """Result of one calibration.

    Attributes
    ----------
    judge : mapping
        Everything of the judge that an answer depends on, as in the signature of a run.
    pool : str
        Digest of the pool.
    date : str
        Day of the calibration (UTC), as 2026-11-20.
    outcome : {"go", "not sure", "no-go"}
        Result of the rule.
    j, j_low, j_high : float or None
        Youden's J with its 95 % interval; None if a trial type had no answer.
    n_calls : int
        Trials of known truth.
    """

    judge: dict[str, JsonValue]
    pool: str
    date: str
    outcome: Literal["go", "not sure", "no-go"]
    j: float | None
    j_low: float | None
    j_high: float | None
    n_calls: int

    def is_of(self, judge: Mapping[str, Json]) -> bool:
        """Return whether `judge` gets the same requests, whatever its name and the model version that served it."""
        return _request_fields(self.judge) == _request_fields(judge)

    def text(self, *, pool: str | None) -> str:
        """Format the result in one line. pool : digest of the run's pool."""
        j = "J unknown" if self.j is None else f"J = {self.j:.2f} [{self.j_low or 0:.2f}, {self.j_high or 0:.2f}]"
        elsewhere = "" if pool == self.pool else ", on another pool"
        return f"calibrate: {self.outcome.upper()} on {self.date}, {j}{elsewhere}"


class CalibrationFile(StrictFile):
    """`calibrations.json`, the oldest calibration first."""

    version: int = VERSION
    calibrations: list[CalibrationRecord]


def read_calibrations(runs: Path) -> list[CalibrationRecord]:
    """Read the calibrations of a folder of runs, the oldest first.

    Raises
    ------
    RunFolderError
        [run-version], [run-file-damaged]: if the file cannot be read.
    """
    path = runs / CALIBRATIONS
    if not path.is_file():
        return []
    return parse(path, path.read_bytes(), TypeAdapter(CalibrationFile)).calibrations


def add_calibration(runs: Path, record: CalibrationRecord) -> None:
    """Write a calibration into a folder of runs; it replaces the one of the same judge and pool.

    Raises
    ------
    RunFolderError
        As `read_calibrations`.
    """
    others = [old for old in read_calibrations(runs) if not (old.pool == record.pool and old.is_of(record.judge))]
    file = CalibrationFile(calibrations=[*others, record])
    with replacing(runs / CALIBRATIONS) as fresh:
        fresh.write_text(file.model_dump_json(indent=1) + "\n", encoding="utf-8", newline="\n")


def find_calibration(runs: Path, judge: Mapping[str, Json], *, pool: str | None) -> CalibrationRecord | None:
    """Find the latest calibration of a judge, in `runs` or else in ./runs.

    Parameters
    ----------
    runs : Path
        Folder that holds the run.
    judge : mapping
        The judge, as in the signature of the run's answers.
    pool : str or None
        Digest of the run's pool; its calibration is preferred.

    Returns
    -------
    CalibrationRecord or None
        None if this judge was not calibrated.

    Raises
    ------
    RunFolderError
        As `read_calibrations`.
    """
    for folder in (runs, DEFAULT_RUNS):
        records = [record for record in read_calibrations(folder) if record.is_of(judge)]
        if records:
            return next((record for record in reversed(records) if record.pool == pool), records[-1])
    return None


def _request_fields(judge: Mapping[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in judge.items() if key not in ("name", "served")}
