"""Build hook: project links and the README of the package index, both from one setting, the address of the repository.

The package index shows README.md on a page of its own, where relative links do not work. They are replaced by links to
the tag of the version in the repository. Its install command names the package instead of the clone.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|#)([^)\s]+)\)")


class ProjectLinks(MetadataHookInterface):
    """Set the fields `readme` and `urls` of the project."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add both fields to the metadata of the project, which hatchling passes."""
        repository = self.config["repository"]
        tag = f"v{metadata['version']}"
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = make_links_absolute(text, repository, tag).replace("'.[report]'", f"'{metadata['name']}[report]'")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = {
            "Source": repository,
            "Documentation": f"{repository}/tree/{tag}/docs",
            "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
            "Issues": f"{repository}/issues",
        }


def make_links_absolute(markdown: str, repository: str, tag: str) -> str:
    """Replace relative links by links to the files of a tag: of images to raw files, others to pages of files."""

    def replace(link: re.Match[str]) -> str:
        mark, text, path = link.groups()
        kind = "raw" if mark else "blob"
        return f"{mark}[{text}]({repository}/{kind}/{tag}/{path})"

    return RELATIVE_LINK.sub(replace, markdown)


def get_metadata_hook() -> type[MetadataHookInterface]:
    """Return the hook; hatchling calls this function."""
    return ProjectLinks
