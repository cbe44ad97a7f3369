"""Write a pool or a run as a dataset of the Hugging Face Hub, and upload it.

Of paths in its files only the last part stays.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pyarrow.parquet as pq

from youden.data.exporters.export_files import TAGS, Exported, ExportOptions, card, config_of, fresh_folder
from youden.data.exporters.plain_tables import run_tables
from youden.data.folder.run_config import RunConfig
from youden.data.folder.run_files import FITTED
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import AGENTS, ITEMS, RESPONSES, write_pool
from youden.errors import ConfigError
from youden.text.printable import typed
from youden.text.sentences import items_compared
from youden.text.tables import as_markdown, two_sided
from youden.types import Pool
from youden.types.pool import Json

COPIED = ("plan.parquet", "verdicts.parquet", *(name for name in FITTED if name not in ("pairs.parquet", "moves.json")))
TYPED = "tables"
"""The folder of a run's ranking and items as Parquet: a reader of CSV has to guess that an agent called 007 is no number."""
SHOWN = 30

NO_LICENCE = (
    "No licence is stated here: the texts belong to whoever wrote them. State it as `license:` in the lines above before "
    "others use them."
)


def export_hf_dataset(source: Pool | RunFolder, out: Path, /, *, terms: ExportOptions) -> Exported:
    """The folder `out`, with README.md. Raises: ConfigError [export-exists]; RunFolderError where a run has no ranking."""
    with fresh_folder(out) as folder:
        rows = _write_pool(source, folder) if isinstance(source, Pool) else _write_run(source, folder)
    return Exported((out,), rows)


def _write_pool(pool: Pool, folder: Path) -> dict[str, int]:
    write_pool(pool, folder)
    front: dict[str, Json] = {
        "pretty_name": pool.name,
        "tags": [*TAGS],
        "configs": [
            config_of("responses", RESPONSES, default=True),
            config_of("items", ITEMS),
            config_of("agents", AGENTS),
        ],
        "dataset_info": [_features("items", "prompt"), _features("agents", "group")],
    }
    n_responses = pool.n_responses
    paragraphs = [
        f"{n_responses:,} responses by {pool.n_agents:,} agents to {pool.n_items:,} items, as a pool of "
        f"[youden](https://pypi.org/project/youden/), which ranks agents without labels. Its digest is `{pool.digest}`.",
        _table(
            ["file", "holds"],
            [
                [RESPONSES, "agent, item, text" + ("" if pool.further is None else ", repeat")],
                [ITEMS, "id, prompt, meta"],
                [AGENTS, "id, group, meta"],
            ],
        ),
        "`datasets.load_dataset(PATH, 'responses')` reads a file, `youden.read_pool(FOLDER)` all three.",
        NO_LICENCE,
        _table(["agent", "group"], [[agent.id, agent.group or ""] for agent in pool.agents[:SHOWN]]),
        *_more(pool.n_agents),
    ]
    (folder / "README.md").write_text(card(front, pool.name, paragraphs), encoding="utf-8", newline="\n")
    return {"responses": n_responses, "items": pool.n_items, "agents": pool.n_agents}


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return as_markdown(two_sided("", heads, (), rows))


def _features(config: str, said: str) -> Json:
    """Meta may hold anything, so `datasets` is told not to guess."""
    kinds = {"id": "string", said: "string", "meta": "json"}
    return {"config_name": config, "features": [{"name": name, "dtype": kind} for name, kind in kinds.items()]}


def _write_run(run: RunFolder, folder: Path) -> dict[str, int]:
    ranking, facts, signature, pool = run.read_ranking(), run.read_facts(), run.read_signature(), run.read_pool()
    for name in COPIED:
        if run.has(name):
            shutil.copyfile(run.file(name), folder / name)
    copy = RunFolder(folder)
    copy.write_pool(replace(pool, source=_last(pool.source)))
    if run.has("config.yaml"):
        copy.write_config(_without_places(run.read_config(), folder))
    tables = {name: one for name, one in run_tables(run).items() if name != "trials"}
    (folder / TYPED).mkdir()
    for name, one in tables.items():
        pq.write_table(one, folder / TYPED / f"{name}.parquet")
    trials = next((name for name in ("verdicts.parquet", "rates.parquet") if run.has(name)), None)
    configs: list[Json] = [config_of(name, f"{TYPED}/{name}.parquet", default=name == "ranking") for name in tables]
    if trials is not None:
        configs.append(config_of("trials", trials))
    name = run.path.resolve().name
    paragraphs = [
        f"A ranking of {len(ranking):,} agents on {items_compared(len(pool.item_ids), run.n_compared(pool))}, by "
        f"[youden](https://pypi.org/project/youden/), made without labels. Intervals are {facts.level:.0%}. "
        "The texts that were judged are not in here.",
        f"Signature: `{signature.digest}`; all that the numbers depend on is in `signature.json`.",
        "`datasets.load_dataset(PATH, 'ranking')` reads a table; youden reads the folder as a run: `youden fit FOLDER`.",
        NO_LICENCE,
        _table(
            ["places", "agent", "ability", "low", "high"],
            [
                [f"{row.place_low}–{row.place_high}", row.agent]
                + ["" if value is None else f"{value:.3f}" for value in (row.ability, row.low, row.high)]
                for row in ranking[:SHOWN]
            ],
        ),
        *_more(len(ranking)),
    ]
    front: dict[str, Json] = {"pretty_name": name, "tags": [*TAGS], "configs": configs}
    (folder / "README.md").write_text(card(front, name, paragraphs), encoding="utf-8", newline="\n")
    return {name: len(one) for name, one in tables.items()}


def _more(n_agents: int) -> list[str]:
    return [f"… and {n_agents - SHOWN:,} agents more."] if n_agents > SHOWN else []


def _last(path: str) -> str:
    return Path(path).name


def _without_places(config: RunConfig, folder: Path) -> RunConfig:
    """The config as if its pool, judge and prompts lay beside it."""

    def beside(path: str) -> str:
        return os.fspath(folder / _last(path))

    changes: dict[str, object] = {"out": str(folder), "store": None, "unfinished": None}
    if not config.pool.startswith("datasets/"):
        changes["pool"] = beside(config.pool)
    if isinstance(config.judge, str) and _is_file(config.judge):
        changes["judge"] = beside(config.judge)
    elif isinstance(config.judge, dict):
        changes["judge"] = _without_folders(config.judge)
    if config.trials_of is not None:
        changes["trials_of"] = beside(config.trials_of)
    changes["extensions"] = [
        step.model_copy(
            update={key: beside(path) for key in ("agents", "items") if (path := getattr(step, key)) is not None}
        )
        for step in config.extensions
    ]
    return config.model_copy(update=changes)


def _without_folders(said: Json) -> Json:
    """A judge's keys, those of a jury's members too, with files named by their last part."""
    if isinstance(said, dict):
        return {key: _without_folders(value) for key, value in said.items()}
    if isinstance(said, list):
        return [_without_folders(value) for value in said]
    return _last(said) if isinstance(said, str) and _is_file(said) else said


def _is_file(said: str) -> bool:
    return said.endswith((".yaml", ".yml", ".md"))


def check_push(format_name: str) -> None:
    """Raise ConfigError [export-push] if a format is no dataset of the Hub, [hub-missing] without `huggingface_hub`."""
    if format_name != "hf":
        raise ConfigError(
            f"--push uploads a dataset of the Hugging Face Hub: got the format {format_name}. Add --format hf.",
            slug="export-push",
        )
    _library()


def push(folder: Path, repo: str, *, public: bool) -> str:
    """Upload a folder as a dataset repository of the Hugging Face Hub.

    Parameters
    ----------
    folder : Path
        From `export_hf_dataset`.
    repo : str
        OWNER/NAME. If it exists, it stays as private or public as it is.
    public : bool
        Whether a new repository is public.

    Returns
    -------
    str
        Address of the repository.

    Raises
    ------
    ConfigError
        [hub-missing]; [hub-refused] with the message of the Hub. The folder stays.
    """
    hub = _library()
    try:
        api = hub.HfApi()
        made = api.create_repo(repo, repo_type="dataset", private=not public, exist_ok=True)
        api.upload_folder(
            folder_path=folder, repo_id=made.repo_id, repo_type="dataset", commit_message="Written by youden export"
        )
    except (hub.errors.HfHubHTTPError, hub.errors.HFValidationError, OSError, ValueError) as error:
        message = " ".join(str(error).split())[:300]
        raise ConfigError(
            f"'{repo}' could not be put on the Hub: {message}. The folder {folder} is whole. Check the name, and HF_TOKEN or "
            f"`hf auth login`; then `{typed(['hf', 'upload', repo, str(folder), '.', '--repo-type', 'dataset'])}`.",
            slug="hub-refused",
        ) from error
    return str(made)


def _library() -> ModuleType:
    try:
        import_module("huggingface_hub.errors")
        return import_module("huggingface_hub")
    except ModuleNotFoundError as error:
        raise ConfigError(
            "--push needs the package `huggingface_hub`, which is not installed. Install youden[hub], or leave --push out and "
            "upload the folder yourself.",
            slug="hub-missing",
        ) from error
