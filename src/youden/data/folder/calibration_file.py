"""Store the results of `youden calibrate` next to the runs, so that runs by the same judge can show them.

The file `calibrations.json` in a folder of runs contains one record per judge and pool.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import JsonValue, TypeAdapter

from youden.data.atomic import atomic_write
from youden.data.folder.folder_lock import file_lock
from youden.data.folder.run_files import VERSION, StrictFile, parse_versioned_json
from youden.text.sentences import format_count
from youden.types.pool import Json

CALIBRATIONS = "calibrations.json"
DEFAULT_RUNS = Path("runs")


class CalibrationRecord(StrictFile):
    """Result of one calibration.

    Attributes
    ----------
    judge : mapping
        The judge's settings that an answer depends on, as in the signature of a run.
    pool : str
        Digest of the pool.
    date : str
        Day of the calibration (UTC), for example 2026-11-20.
    outcome : {"go", "not sure", "no-go"}
        Recommendation of the calibration.
    j, j_low, j_high : float or None
        Youden's J (TPR − FPR) and its 95% confidence interval; None if a trial type had no answer.
    n_calls : int
        Number of trials whose correct answer is known.
    """

    judge: dict[str, JsonValue]
    pool: str
    date: str
    outcome: Literal["go", "not sure", "no-go"]
    j: float | None
    j_low: float | None
    j_high: float | None
    n_calls: int

    def is_same_judge(self, judge: Mapping[str, Json]) -> bool:
        """Return whether a judge sends the same requests as the calibrated one.

        Parameters
        ----------
        judge : mapping of str to JSON value
            Settings of the judge, as in the signature of a run. Its name, and the models that the provider reported,
            are ignored.

        Returns
        -------
        bool
            True if all other settings are equal.
        """
        return _get_request_settings(self.judge) == _get_request_settings(judge)

    def describe(self, *, pool: str | None) -> str:
        """Describe the result in one line.

        Parameters
        ----------
        pool : str or None
            Digest (hash) of the pool of the run for which the line is displayed. If the calibration used another pool, the line
            states that.

        Returns
        -------
        str
            Outcome and date, Youden's J (TPR − FPR) with its confidence interval, and the number of calls, for example
            "calibrate: GO on 2026-11-20, J = 0.62 [0.51, 0.73], 150 calls".
        """
        if self.j is None or self.j_low is None or self.j_high is None:
            estimate = "J unknown"
        else:
            estimate = f"J = {self.j:.2f} [{self.j_low:.2f}, {self.j_high:.2f}]"
        pool_note = "" if pool == self.pool else ", on another pool"
        calls = format_count(self.n_calls, "call")
        return f"calibrate: {self.outcome.upper()} on {self.date}, {estimate}, {calls}{pool_note}"


class CalibrationFile(StrictFile):
    """Content of `calibrations.json`; the oldest calibration is first."""

    version: int = VERSION
    calibrations: list[CalibrationRecord]


def read_calibrations(runs: Path) -> list[CalibrationRecord]:
    """Read the calibrations in a folder of runs.

    A calibration estimates the error rates of a judge on trials whose correct answer is known.

    runs : folder of runs

    Returns the calibrations, the oldest first; empty if the folder has no file of calibrations.

    Raises: RunFolderError [run-version] if another version of youden wrote the file; [run-file-damaged] if it does not have the
        expected content.
    """
    path = runs / CALIBRATIONS
    if not path.is_file():
        return []
    content = parse_versioned_json(path, path.read_bytes(), TypeAdapter(CalibrationFile))
    return content.calibrations


def add_calibration(runs: Path, record: CalibrationRecord) -> CalibrationRecord:
    """Add a calibration to the file of a folder of runs, unless the file has a more precise one of the same judge and pool.

    A calibration estimates the error rates of a judge. Precision is compared by these rules:

    1. A calibration with a value of Youden's J is more precise than one without.
    2. Otherwise, the one with more calls is more precise.
    3. If both are equally precise, the later one is stored.

    Parameters
    ----------
    runs : Path
        Folder of runs.
    record : CalibrationRecord
        The calibration.

    Returns
    -------
    CalibrationRecord
        The stored calibration of the judge on the pool: `record`, or the one that was kept.

    Raises
    ------
    RunFolderError
        [run-version]: if another version of youden wrote the file; [run-file-damaged]: if it does not
        have the expected content.
    """
    with file_lock(runs / CALIBRATIONS):
        other_records = []
        for old_record in read_calibrations(runs):
            has_same_subject = old_record.pool == record.pool and old_record.is_same_judge(record.judge)
            if has_same_subject and _rate_precision(old_record) > _rate_precision(record):
                return old_record
            if not has_same_subject:
                other_records.append(old_record)
        content = CalibrationFile(calibrations=[*other_records, record])
        text = content.model_dump_json(indent=1) + "\n"
        with atomic_write(runs / CALIBRATIONS) as tmp_path:
            tmp_path.write_text(text, encoding="utf-8", newline="\n")
    return record


def _rate_precision(record: CalibrationRecord) -> tuple[bool, int]:
    """Return whether J of a calibration is known, and its number of calls."""
    return record.j is not None, record.n_calls


def find_calibration(runs: Path, judge: Mapping[str, Json], *, pool: str | None) -> CalibrationRecord | None:
    """Find the latest calibration of a judge, preferably on the pool of a run.

    A calibration estimates the error rates of a judge on trials whose correct answer is known.

    runs : folder of runs to search; it need not exist. If it has no calibration of the judge on any pool, ./runs is searched.
    judge : settings of the judge by key, as in the signature of a run. All settings must be equal, except "name" and
        "response_models" (the models that answered).
    pool : digest of the pool of the run; None if it is unknown. A calibration on this pool is preferred to a later one on
        another pool.

    Returns the calibration, with its date, its outcome ("go", "not sure" or "no-go") and Youden's J; None if the judge was not
    calibrated.

    Raises: RunFolderError [run-file-damaged] if a file of calibrations is damaged; [run-version] if it has another version.
    """
    for folder in (runs, DEFAULT_RUNS):
        records = [record for record in read_calibrations(folder) if record.is_same_judge(judge)]
        on_same_pool = [record for record in records if record.pool == pool]
        if on_same_pool:
            return on_same_pool[-1]
        if records:
            return records[-1]
    return None


def _get_request_settings(judge: Mapping[str, Json]) -> dict[str, Json]:
    """Return those settings of a judge on which its requests depend."""
    return {key: value for key, value in judge.items() if key not in ("name", "response_models")}
