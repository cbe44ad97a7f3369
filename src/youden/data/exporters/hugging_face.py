"""Export a pool or a run as a dataset of the Hugging Face Hub, and upload it.

Paths in its files are reduced to their last component, so that a published dataset does not reveal local folders.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet as pq

from youden.data.exporters.export_files import (
    TAGS,
    Exported,
    ExportOptions,
    create_export_folder,
    dataset_config,
    format_card,
)
from youden.data.exporters.plain_tables import read_run_tables
from youden.data.folder.config_paths import resolve_paths
from youden.data.folder.extension_steps import POOLS, ExtensionStep
from youden.data.folder.run_config import RunConfig
from youden.data.folder.run_files import FIT_FILES
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import AGENTS, ITEMS, RESPONSES, write_pool
from youden.errors import ConfigError
from youden.text.printable import format_command
from youden.text.sentences import format_items_compared, format_rank_range
from youden.text.tables import make_table, to_markdown
from youden.types import Pool
from youden.types.arguments import check_unused
from youden.types.facts import RankingRow
from youden.types.pool import Json

_COPIED_FILES = (
    "plan.parquet",
    "verdicts.parquet",
    *(name for name in FIT_FILES if name not in ("pairs.parquet", "variance_components.json")),
)
"""Files of a run that are copied unchanged."""
_TABLES_FOLDER = "tables"
"""Folder for a run's ranking and items as Parquet. From CSV, a reader could read an agent called 007 as a number."""
_MAX_LISTED_AGENTS = 30

_LICENSE_NOTE = (
    "This dataset states no license; the texts belong to their authors. Set `license:` in the lines above before others use "
    "them."
)


def export_hf_dataset(source: Pool | RunFolder, out: Path, /, *, options: ExportOptions) -> Exported:
    """Export a pool or a run as a folder with a README.md, as the Hub expects it.

    Parameters
    ----------
    source : Pool or RunFolder
        Pool, or fitted run.
    out : Path
        Folder to write.
    options : ExportOptions
        Options of the export; `organization` and `raw_cells` are errors.

    Returns
    -------
    Exported
        The folder, and the number of rows by table.

    Raises
    ------
    ConfigError
        [export-exists]: if `out` is not an empty or new folder; [option-unused]: if an option has no effect.
    RunFolderError
        If the run is not fitted.
    """
    check_unused("The format hf", organization=options.organization, raw_cells=options.raw_cells)
    if isinstance(source, RunFolder):
        source.check_information()
    with create_export_folder(out) as folder:
        n_rows = _write_pool_dataset(source, folder) if isinstance(source, Pool) else _write_run_dataset(source, folder)
    return Exported((out,), n_rows)


def _write_pool_dataset(pool: Pool, folder: Path) -> dict[str, int]:
    """Write a pool as a dataset for Hugging Face: its three files and a README.md.

    The hub shows README.md as the card of the dataset. Its front matter states the files of the dataset and the types
    of their columns.

    pool : pool to write
    folder : existing folder, which gets the files

    Returns the number of rows by name of the table: responses, items and agents.
    """
    write_pool(pool, folder)
    metadata: dict[str, Json] = {
        "pretty_name": pool.name,
        "tags": [*TAGS],
        "configs": [
            dataset_config("responses", RESPONSES, default=True),
            dataset_config("items", ITEMS),
            dataset_config("agents", AGENTS),
        ],
        "dataset_info": [_describe_features("items", "prompt"), _describe_features("agents", "group")],
    }
    card = format_card(metadata, pool.name, _describe_pool(pool))
    (folder / "README.md").write_text(card, encoding="utf-8", newline="\n")
    return {"responses": pool.n_responses, "items": pool.n_items, "agents": pool.n_agents}


def _describe_pool(pool: Pool) -> list[str]:
    """Return the text of the dataset card of a pool as paragraphs of Markdown.

    The card states the size of the pool, its digest (hash) and its files, and how to read them. It also states that the dataset
    has no license yet. A table lists at most `_MAX_LISTED_AGENTS` agents with their groups.
    """
    response_columns = "agent, item, text"
    if pool.repeat_texts is not None:
        response_columns += ", repeat"
    file_rows = [[RESPONSES, response_columns], [ITEMS, "id, prompt, meta"], [AGENTS, "id, group, meta"]]
    agent_rows = [[agent.id, agent.group or ""] for agent in pool.agents[:_MAX_LISTED_AGENTS]]
    return [
        f"{pool.n_responses:,} responses by {pool.n_agents:,} agents to {pool.n_items:,} items, as a pool of "
        f"[youden](https://pypi.org/project/youden/), which ranks agents without labels. Its digest is `{pool.digest}`.",
        _format_table(["file", "contains"], file_rows),
        "`datasets.load_dataset(PATH, 'responses')` reads a file, `youden.read_pool(FOLDER)` all three.",
        _LICENSE_NOTE,
        _format_table(["agent", "group"], agent_rows),
        *_format_remainder(pool.n_agents),
    ]


def _format_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a table of texts in Markdown, for the README of a dataset."""
    return to_markdown(make_table("", headings, (), rows))


def _describe_features(config: str, text_column: str) -> Json:
    """Declare the types of a table's columns: the package `datasets` cannot infer the type of `meta`."""
    types = {"id": "string", text_column: "string", "meta": "json"}
    features: list[Json] = [{"name": name, "dtype": kind} for name, kind in types.items()]
    return {"config_name": config, "features": features}


def _write_run_dataset(run: RunFolder, folder: Path) -> dict[str, int]:
    """Write a fitted run as a dataset for Hugging Face: its files, its tables and a README.md.

    The hub shows README.md as the card of the dataset. Trials are not written as a table, because the copied files contain them.

    run : fitted run
    folder : existing folder, which gets the files

    Returns the number of rows by name of the table.
    """
    paragraphs = _describe_run(run)
    _copy_run_files(run, folder)

    tables = read_run_tables(run)
    tables.pop("trials", None)  # among the copied files
    configs = _write_tables(tables, folder)
    trial_files = [name for name in ("verdicts.parquet", "rates.parquet") if run.has(name)]
    if trial_files:
        configs.append(dataset_config("trials", trial_files[0]))

    run_name = run.path.resolve().name
    metadata: dict[str, Json] = {"pretty_name": run_name, "tags": [*TAGS], "configs": configs}
    card = format_card(metadata, run_name, paragraphs)
    (folder / "README.md").write_text(card, encoding="utf-8", newline="\n")
    return {name: len(table) for name, table in tables.items()}


def _describe_run(run: RunFolder) -> list[str]:
    """Return the paragraphs of the dataset card of a fitted run, as Markdown, with its ranking as a table."""
    ranking = run.read_ranking()
    facts = run.read_facts()
    signature = run.read_signature()
    pool = run.read_pool()
    items = format_items_compared(len(pool.item_ids), run.count_compared_items(pool))
    agent_rows = [_format_ranking_row(row) for row in ranking[:_MAX_LISTED_AGENTS]]

    note_on_unfinished_run = [] if facts.partial is None else [facts.partial.text]
    return [
        *note_on_unfinished_run,
        f"A ranking of {len(ranking):,} agents on {items}, by "
        f"[youden](https://pypi.org/project/youden/), made without labels. Intervals are {facts.level:.0%}. "
        "The dataset does not contain the texts that were judged.",
        f"Signature: `{signature.digest}`; `signature.json` contains all that the numbers depend on.",
        "`datasets.load_dataset(PATH, 'ranking')` reads a table; youden reads the folder as a run: `youden fit FOLDER`.",
        _LICENSE_NOTE,
        _format_table(["ranks", "agent", "ability", "low", "high"], agent_rows),
        *_format_remainder(len(ranking)),
    ]


def _write_tables(tables: Mapping[str, pa.Table], folder: Path) -> list[Json]:
    """Write each table to `tables/NAME.parquet` in a folder, and return the entries of the tables in the dataset card."""
    (folder / _TABLES_FOLDER).mkdir()
    configs: list[Json] = []
    for name, table in tables.items():
        path = f"{_TABLES_FOLDER}/{name}.parquet"
        pq.write_table(table, folder / path)
        configs.append(dataset_config(name, path, default=name == "ranking"))
    return configs


def _copy_run_files(run: RunFolder, folder: Path) -> None:
    """Copy the files of a run to a folder, which can then be read as a run.

    The copies of pool.json and config.yaml contain no paths of local folders.
    """
    for name in _COPIED_FILES:
        if run.has(name):
            shutil.copyfile(run.file(name), folder / name)

    copy = RunFolder(folder)
    pool = run.read_pool()
    copy.write_pool(replace(pool, source=Path(pool.source).name))
    if run.has("config.yaml"):
        copy.write_config(_redirect_paths_to_folder(run.read_config(), folder))


def _format_ranking_row(row: RankingRow) -> list[str]:
    """Return the cells of an agent in the table of the README: ranks, agent, ability and its interval."""
    numbers = ["" if value is None else f"{value:.3f}" for value in (row.ability, row.low, row.high)]
    return [format_rank_range(row.rank_low, row.rank_high), row.agent, *numbers]


def _format_remainder(n_agents: int) -> list[str]:
    """Return a sentence about the agents that the table of the README does not list; no sentence if it lists all."""
    n_more = n_agents - _MAX_LISTED_AGENTS
    return [f"… and {n_more:,} more agents."] if n_more > 0 else []


def _redirect_paths_to_folder(config: RunConfig, folder: Path) -> RunConfig:
    """Return a copy of a config for a folder to which all files of the config have been copied.

    - All paths lead to files directly in `folder`. Paths in the keys of a judge become file names, relative to `folder`.
    - Pools that are shipped with youden keep their paths.
    - The copy has no answer store and no unfinished extension.
    """
    changes: dict[str, object] = {"out": str(folder), "store": None, "unfinished": None}
    if not config.pool.startswith("datasets/") or Path(config.pool).exists():
        changes["pool"] = _make_path_in_folder(config.pool, folder)
    if isinstance(config.judge, str) and _is_file_path(config.judge):
        changes["judge"] = _make_path_in_folder(config.judge, folder)
    elif isinstance(config.judge, dict):
        changes["judge"] = resolve_paths("judge", _strip_folders_in_judge(config.judge), folder)
    if config.trials_from is not None:
        changes["trials_from"] = _make_path_in_folder(config.trials_from, folder)
    changes["extensions"] = [_redirect_pools_to_folder(step, folder) for step in config.extensions]
    return config.model_copy(update=changes)


def _redirect_pools_to_folder(step: ExtensionStep, folder: Path) -> ExtensionStep:
    """Return a copy of an extension in which the paths of the added pools lead to files directly in `folder`."""
    changes = {}
    for key in POOLS:
        path = getattr(step, key)
        if path is not None:
            changes[key] = _make_path_in_folder(path, folder)
    return step.model_copy(update=changes)


def _make_path_in_folder(path: str, folder: Path) -> str:
    """Return the path of the file with the same name in `folder`."""
    return os.fspath(folder / Path(path).name)


def _strip_folders_in_judge(settings: Json) -> Json:
    """Return the settings of a judge, with each path of a file in them reduced to its last component.

    settings : keys of a judge; or a part of them, such as the list of the judges of a jury, or a single setting
    """
    if isinstance(settings, dict):
        return {key: _strip_folders_in_judge(setting) for key, setting in settings.items()}
    if isinstance(settings, list):
        return [_strip_folders_in_judge(setting) for setting in settings]
    if isinstance(settings, str) and _is_file_path(settings):
        return Path(settings).name
    return settings


def _is_file_path(setting: str) -> bool:
    """Return whether a setting of a judge ends like the path of a file."""
    return setting.lower().endswith((".yaml", ".yml", ".md"))


def check_push(format_name: str) -> None:
    """Check whether an export can be uploaded to the Hugging Face Hub.

    Parameters
    ----------
    format_name : str
        Name of the format.

    Raises
    ------
    ConfigError
        [export-push]: if the format is not a dataset of the Hub; [hub-missing]: if `huggingface_hub` is not installed.
    """
    if format_name != "hf":
        raise ConfigError(
            f"--push can only upload a dataset of the Hugging Face Hub: got the format {format_name}. Add --format hf.",
            slug="export-push",
        )
    _import_hub()


def upload_dataset(folder: Path, repo: str, *, public: bool) -> str:
    """Upload a folder as a dataset repository of the Hugging Face Hub.

    A repository that does not exist is created. In an existing repository, files of the same path are replaced, and other files
    stay. All files are written in one commit. The access token is read from the environment variable HF_TOKEN, or from the login
    by `hf auth login`.

    Parameters
    ----------
    folder : Path
        Folder of the dataset, which is uploaded with its subfolders.
    repo : str
        OWNER/NAME. An existing repository stays private or public.
    public : bool
        Whether a new repository is public; otherwise it is private.

    Returns
    -------
    str
        URL of the repository.

    Raises
    ------
    ConfigError
        [hub-missing]: if `huggingface_hub` is not installed; [hub-refused]: if the Hub refuses the upload or cannot
        be reached, with its message. The folder is kept in both cases.
    """
    hub = _import_hub()
    try:
        api = hub.HfApi()
        repository = api.create_repo(repo, repo_type="dataset", private=not public, exist_ok=True)
        api.upload_folder(
            folder_path=folder,
            repo_id=repository.repo_id,
            repo_type="dataset",
            commit_message="Written by youden export",
        )
    except (hub.errors.HfHubHTTPError, hub.errors.HFValidationError, OSError, ValueError) as error:
        message = " ".join(str(error).split())[:300]
        command = format_command(["hf", "upload", repo, str(folder), ".", "--repo-type", "dataset"])
        raise ConfigError(
            f"'{repo}' could not be uploaded to the Hub: {message}. The folder {folder} is complete. Check the name, and set "
            f"HF_TOKEN or run `hf auth login`; then run `{command}`.",
            slug="hub-refused",
        ) from error
    return str(repository)


def _import_hub() -> ModuleType:
    """Import `huggingface_hub`; raise ConfigError [hub-missing] if it is not installed."""
    try:
        import_module("huggingface_hub.errors")
        return import_module("huggingface_hub")
    except ModuleNotFoundError as error:
        raise ConfigError(
            "--push needs the package `huggingface_hub`, which is not installed. Install youden[hub], or remove --push and "
            "upload the folder yourself.",
            slug="hub-missing",
        ) from error
