"""Puts an exported folder on the Hugging Face Hub by `huggingface_hub`, which finds the token and the Hub's address itself."""

from __future__ import annotations

import shlex
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Literal

from youden.errors import ConfigError

PUSHED: dict[str, Literal["dataset", "space"]] = {"hf": "dataset", "hf-space": "space"}
"""What each format becomes on the Hub."""


def check_push(format_name: str) -> None:
    """Raises: ConfigError [export-push] for a format that is nothing on the Hub, [hub-missing] without `huggingface_hub`."""
    if format_name not in PUSHED:
        raise ConfigError(
            f"--push puts a folder on the Hugging Face Hub, and the format {format_name} is none. "
            f"Add --format {' or --format '.join(PUSHED)}.",
            slug="export-push",
        )
    _library()


def push(folder: Path, repo: str, format_name: str, *, public: bool) -> str:
    """Make the repository OWNER/NAME where there is none, private unless `public`, and put the folder's files there.

    One that is there stays as private or public as it is. Returns its address.

    Raises: as `check_push`; ConfigError [hub-refused] with what the Hub said; the folder stays.
    """
    check_push(format_name)
    hub, kind = _library(), PUSHED[format_name]
    try:
        api = hub.HfApi()
        made = api.create_repo(
            repo,
            repo_type=kind,
            private=not public,
            exist_ok=True,
            **({"space_sdk": "static"} if kind == "space" else {}),
        )
        api.upload_folder(
            folder_path=folder, repo_id=made.repo_id, repo_type=kind, commit_message="Written by youden export"
        )
    except (hub.errors.HfHubHTTPError, hub.errors.HFValidationError, OSError, ValueError) as error:
        said = " ".join(str(error).split())[:300]
        raise ConfigError(
            f"'{repo}' could not be put on the Hub: {said}. The folder {folder} is whole. Check the name, and HF_TOKEN or "
            f"`hf auth login`; then `{shlex.join(['hf', 'upload', repo, str(folder), '.', '--repo-type', kind])}`.",
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
