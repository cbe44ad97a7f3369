"""Test the documentation: the code of every page runs, generated tables are complete, and pages load no other host."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import book
from commands import Youden
from youden.extras import EXTRAS
from youden.protocol.designs import DESIGNS

ROOT, DOCS = book.ROOT, book.DOCS
ELSEWHERE = {
    "how-to/many-machines.md": "test_many_machines.py",
    "how-to/workers.md": "test_compose.py",
    "providers.md": "test_providers.py",
}
"""Pages whose code is run by other tests because it needs keys, servers or clusters."""

RUNS = [page for page in book.pages()[1:] if any(block.language in ("python", "sh") for block in book.blocks(page))]
RUNS = [page for page in RUNS if str(page.relative_to(DOCS)) not in ELSEWHERE]


@pytest.mark.parametrize(("page", "test"), ELSEWHERE.items())
def test_code_included_from_another_file_is_found(page: str, test: str) -> None:
    assert (DOCS / page).is_file()
    assert Path(page).name in next((ROOT / "tests").rglob(test)).read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def port() -> Iterator[int]:
    with book.judging() as result:
        yield result


@pytest.fixture(scope="session")
def furnished(port: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create the folder of a reader in which mine.yaml was run."""
    folder = tmp_path_factory.mktemp("book")
    book.furnish(folder, port)
    done = subprocess.run(
        [sys.executable, "-m", "youden", "run", "mine.yaml"],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "CI"},  # a page shows a user's own machine
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def rounded(picture: str) -> str:
    """Round each number to four decimals: later ones depend on the processor."""
    return re.sub(r"-?\d+\.\d+", lambda number: f"{float(number[0]):.4f}", picture)


@pytest.mark.slow
@pytest.mark.parametrize("page", RUNS, ids=lambda page: str(page.relative_to(DOCS)))
def test_the_code_of_a_page_runs(page: Path, youden: Youden, furnished: Path, tmp_path: Path, port: int) -> None:
    book.copied(furnished, tmp_path)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")

    def command(words: list[str]) -> int:
        ended = youden(*words)
        print(ended.out, ended.err, file=sys.stderr)
        return ended.code

    book.run_page(page, tmp_path, command)
    for drawn in tmp_path.glob("*.svg"):
        displayed = DOCS / "pictures" / drawn.name
        if displayed.exists():
            pictures = [rounded(path.read_text(encoding="utf-8")) for path in (drawn, displayed)]
            marks = [re.findall(r"youden [0-9a-f]{64}", picture) or picture for picture in pictures]
            assert marks[0] == marks[1], (
                f"{displayed} is not what this page draws; copy {drawn.name} of its commands there"
            )


def test_every_link_between_pages_has_a_target() -> None:
    for page in book.pages():
        for target in re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)}: {target}"


def test_readme_fits_one_screen() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def made_page(name: str, folder: str = "reference") -> str:
    """Return a page with its generated tables."""
    text: str = book.program("make_pages").insert_tables((DOCS / folder / name).read_text(encoding="utf-8"))
    return text


def test_documents_and_docstrings_name_existing_parts_of_benchmarks() -> None:
    files = [*book.pages(), ROOT / "CHANGELOG.md", *(ROOT / "src").rglob("*.py")]
    commands = re.findall(
        r"benchmarks/(\w+\.py) --only '?([\w,-]+)", " ".join(path.read_text(encoding="utf-8") for path in files)
    )
    unknown = [
        (benchmark, part)
        for benchmark, parts in commands
        for part in parts.split(",")
        if f'"{part}"' not in (ROOT / "benchmarks" / benchmark).read_text(encoding="utf-8")
    ]
    assert len(commands) >= 15
    assert unknown == []


def test_each_page_with_generated_tables_notes_in_the_repository_that_it_lacks_them() -> None:
    for page in book.pages():
        source = page.read_text(encoding="utf-8")
        n_notes = source.count("\n*Not shown here: ")
        assert n_notes == ("\n<!-- made: " in source), page
        if n_notes:
            assert "Not shown here" not in book.program("make_pages").remove_notes(source)


def test_every_design_is_described_on_its_page_with_its_options() -> None:
    page = made_page("designs.md", "statistics")
    rows = dict(re.findall(r"^\| `([\w-]+)` \| (.+ \| Use it .+) \|$", page, re.MULTILINE))
    assert set(rows) == set(DESIGNS)
    assert {"`half_width`", "`pairs`"} <= set(re.findall(r"`\w+`", rows["fixed-width"]))
    assert "| 450 | pooled | 0%" in rows["cyclic"]


@pytest.mark.slow
def test_every_message_of_the_source_is_listed_once_on_its_page() -> None:
    page = made_page("errors.md")
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    slugs = set(re.findall(r'slug="([a-z0-9-]+)"', source)) | set(re.findall(r"\[([a-z]{2,}-[a-z-]+)\]\"", source))
    matches = set(re.findall(r'^\| (?:<span id="[^"]*"></span>)?`([^`]+)` \|', page, re.MULTILINE))
    assert slugs - matches == set()
    assert len(matches) > 250
    ids = re.findall(r'<span id="([^"]+)"', page)
    assert len(ids) == len(set(ids))


@pytest.mark.slow
def test_every_message_on_the_page_has_a_remedy_in_plain_text() -> None:
    page = made_page("errors.md")
    assert "See the function" not in page
    rows = re.findall(r"^\| (?:<span[^>]*></span>)?`([^`]+)` \| (.*) \|$", page, re.MULTILINE)
    sentences = {
        slug: [re.split(r"(?<=[.!?:;›)>])\s+(?=[A-Z`‹<])", text) for text in cell.split("<br>")] for slug, cell in rows
    }
    assert [slug for slug, texts in sentences.items() if all(len(text) < 2 for text in texts)] == []
    assert [slug for slug, cell in rows if "$" in cell] == []  # the text between two $ becomes a formula


def test_every_package_whose_messages_a_page_lists_exists() -> None:
    page = (DOCS / "reference" / "errors.md").read_text(encoding="utf-8")
    for room in " ".join(re.findall(r"<!-- made: messages ([^*]*?) -->", page)).split():
        assert (ROOT / "src" / "youden" / room).is_dir() or (ROOT / "src" / "youden" / f"{room}.py").is_file(), room


def test_every_config_key_is_documented() -> None:
    page = made_page("config.md")
    silent = re.findall(r"^\| `(\w+)` \|[^|]*\|[^|]*\|\s*\|$", page, re.MULTILINE)
    assert silent == []
    assert {"`pool`", "`max_cost`", "`price_in`", "`base_url`"} <= set(re.findall(r"`\w+`", page))


def test_every_command_and_option_is_in_the_reference() -> None:
    page = made_page("commands.md")
    for named in ("## youden run", "### youden study links", "### youden cassette verify", "`--max-cost USD`"):
        assert named in page


@pytest.mark.slow
def test_the_files_and_columns_of_a_run_are_in_the_reference(youden: Youden, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    assert youden("demo").code == 0
    page = made_page("files.md")
    run = tmp_path / "runs" / "demo"
    for file in run.iterdir():
        assert f"`{file.name}`" in page, file.name
    columns = {
        name: (run / f"{name}.csv").read_text().split("\n")[0].split(",") for name in ("ranking", "items", "curl")
    }
    columns |= {name: pq.read_schema(run / f"{name}.parquet").names for name in ("plan", "verdicts", "rates")}
    for name, header in columns.items():
        section = page.split(f"## `{name}.")[1].split("\n## ")[0]
        for column in header:
            plain = re.sub(r"^robust_", "", column.strip())
            assert f"`{plain}`" in section, f"{name}: {column}"


def test_every_page_is_in_the_menu_once() -> None:
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"([\w/-]+\.md)$", config[config.index("\nnav:") :], re.MULTILINE)
    assert sorted(listed) == [page.relative_to(DOCS).as_posix() for page in sorted(DOCS.rglob("*.md"))]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the documentation as HTML in a temporary folder."""
    pytest.importorskip("zensical", reason="the dependency group `docs` is not installed")
    folder = tmp_path_factory.mktemp("built")
    book.program("make_pages").write_pages(folder / "build" / "pages")
    shutil.copy(ROOT / "mkdocs.yml", folder)
    (folder / "src").symlink_to(ROOT / "src")
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "build" / "book"


@pytest.mark.slow
def test_the_book_builds_strictly_without_broken_links_or_external_requests(built: Path) -> None:
    script = r"<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\bsrc=\"(?:https?:)?//"
    style = r"<link\b(?![^>]*\brel=\"(?:canonical|prev|next)\")[^>]*href=\"(?:https?:)?//"
    loaded = re.compile(f"{script}|{style}")
    pages = list(built.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not loaded.search(text), page
        assert "<!-- made:" not in text, page
    for sheet in built.rglob("*.css"):
        assert not re.search(r"@import[^;]*//|url\(\s*['\"]?(?:https?:)?//", sheet.read_text(encoding="utf-8")), sheet
    ids = {page: set(re.findall(r'\bid="([^"]+)"', page.read_text(encoding="utf-8"))) for page in built.rglob("*.html")}
    for page in ids:
        for target in re.findall(r'<a\b[^>]*href="([^"]+)"', page.read_text(encoding="utf-8")):
            if re.match(r"[a-z]+:", target) or page.name == "404.html":
                continue
            path, _, anchor = target.partition("#")
            there = (page.parent / path).resolve() if path else page
            assert there.exists(), f"{page.name}: {target}"
            if anchor and there in ids and not anchor.startswith("__"):
                assert anchor in ids[there], f"{page.name}: {target}"


def test_the_installation_page_lists_every_extra() -> None:
    page = (DOCS / "reference" / "installation.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == sorted(EXTRAS)


def test_the_readme_states_the_disk_space_of_the_installation_page() -> None:
    page = (DOCS / "reference" / "installation.md").read_text(encoding="utf-8")
    (size,) = re.findall(r"Reserve (\d+ MB) of disk space", page)
    assert f"[{size} of disk space](docs/reference/installation.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
