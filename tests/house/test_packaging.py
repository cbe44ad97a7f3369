"""Test the metadata for the package index, and that links of its README work outside the repository."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import tomllib
from importlib.metadata import metadata
from pathlib import Path

import pytest

import youden
from youden import extras

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf8"))
REPOSITORY: str = PYPROJECT["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"]
installed = metadata("youden")


def test_project_links_point_to_the_repository() -> None:
    links = dict(line.split(", ", 1) for line in installed.get_all("Project-URL") or [])
    assert set(links) == {"Source", "Documentation", "Changelog", "Issues"}
    assert all(address.startswith(REPOSITORY) for address in links.values())


def test_the_readme_of_the_package_index_has_no_relative_link() -> None:
    text = str(installed.json["description"])
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    images = re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", text)
    assert len(links) > 20
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    assert images
    assert all(image.startswith(f"{REPOSITORY}/raw/v{installed['Version']}/") for image in images)


def test_the_readme_of_the_package_index_installs_the_package_not_a_clone() -> None:
    text = str(installed.json["description"])
    assert "pip install -q 'youden[report]'" in text
    assert "'.[" not in text
    assert "pip install -q '.[report]'" in (ROOT / "README.md").read_text("utf8")


def test_all_files_name_the_version_that_the_changelog_describes_first() -> None:
    version: str = PYPROJECT["project"]["version"]
    texts = {name: (ROOT / name).read_text("utf8") for name in ("CITATION.cff", "action.yml", "CHANGELOG.md")}
    assert version == youden.__version__
    assert f"\nversion: {version}\n" in texts["CITATION.cff"]
    assert f"`youden=={version}`" in texts["action.yml"]
    assert re.findall(r"^## \[(.*)\]", texts["CHANGELOG.md"], re.M)[0] == version


def test_every_link_of_the_readme_names_a_file_of_the_repository() -> None:
    text = (ROOT / "README.md").read_text("utf8")
    paths = [path for path in re.findall(r"\]\(([^)\s#]+)\)", text) if not path.startswith("http")]
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_classifiers_list_every_supported_python() -> None:
    versions = [
        re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", name)
        for name in PYPROJECT["project"]["classifiers"]
    ]
    assert [match[1] for match in versions if match] == ["3.11", "3.12", "3.13", "3.14", "3.15"]


@pytest.mark.parametrize(
    ("address", "released", "is_refused"),
    [
        ("https://github.com/OWNER/youden", "True", True),
        ("https://github.com/ann/youden", "False", True),
        ("https://github.com/ann/youden", "True", False),
    ],
)
@pytest.mark.posix
def test_the_release_fails_while_a_setting_is_a_placeholder(
    address: str, released: str, is_refused: bool, tmp_path: Path
) -> None:
    step = re.search(r"run: '(! grep .*)'", (ROOT / ".github/workflows/release.yml").read_text("utf8"))
    assert step is not None
    extras_file = tmp_path / "src/youden/extras.py"
    extras_file.parent.mkdir(parents=True)
    setting = re.sub("^RELEASED = .*", f"RELEASED = {released}", Path(extras.__file__).read_text("utf8"), flags=re.M)
    extras_file.write_text(setting, encoding="utf8")
    (tmp_path / "pyproject.toml").write_text(f'repository = "{address}"\n', encoding="utf8")
    ended = subprocess.run(["bash", "-e", "-c", f"{step[1]} || exit 1"], cwd=tmp_path, capture_output=True, check=False)
    assert (ended.returncode != 0) == is_refused


def test_relative_links_are_made_absolute_and_anchors_unchanged() -> None:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    hatch_build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hatch_build)
    text = "[![badge](docs/a.svg)](docs/a.md) [here](#here) [out](https://a.example)"
    created = hatch_build.make_links_absolute(text, "https://b.example/r", "v1")
    assert "](https://b.example/r/blob/v1/docs/a.md)" in created
    assert created.endswith("[here](#here) [out](https://a.example)")
