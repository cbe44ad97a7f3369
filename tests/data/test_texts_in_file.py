"""Test that the texts of a large pool stay in a file that behaves like an array in memory."""

from __future__ import annotations

import hashlib
import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from commands import Youden, write_config
from narrowing import not_none
from youden import read_pool
from youden.data.pools import spool
from youden.data.pools.pool_reader import write_pool
from youden.errors import PoolError
from youden.text.words import mean_lengths, split_words
from youden.types import Agent, Item, Pool
from youden.types.texts_in_file import find_file_texts

TEXTS = st.one_of(
    st.none(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.sampled_from(["plain words", "ends \x7f", "", 'a "quoted" line\nand \\ another', "it’s “so” – or…"]),
)
GRIDS = st.lists(st.lists(TEXTS, min_size=4, max_size=4), min_size=3, max_size=3).filter(
    lambda rows: rows[0][0] is not None
)


def pool_of(grid: list[list[str | None]]) -> Pool:
    agents, items = tuple(Agent(f"a{i}", group="g") for i in range(3)), tuple(Item(f"i{j}", f"p{j}") for j in range(4))
    return Pool(agents, items, np.array(grid, dtype=object))


def rows_of(pool: Pool) -> dict[str, list[str | None]]:
    """Return one row per response, ordered by item, so that the order in the file differs from that of the grid."""
    rows = [(a, i) for i in range(pool.n_items) for a in range(pool.n_agents) if pool.texts[a, i] is not None]
    return {
        "agent": [pool.agents[a].id for a, _ in rows],
        "item": [pool.items[i].id for _, i in rows],
        "text": [pool.texts[a, i] for a, i in rows],
        "prompt": [pool.items[i].prompt for _, i in rows],
        "group": [pool.agents[a].group for a, _ in rows],
    }


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "MAX_BYTES_IN_MEMORY", 8)


@settings(max_examples=15, deadline=None)
@given(grid=GRIDS)
@pytest.mark.parametrize("form", ["folder", "parquet"])
def test_a_pool_in_a_file_equals_the_pool_in_memory(
    tmp_path_factory: pytest.TempPathFactory, form: str, grid: list[list[str | None]]
) -> None:
    place = tmp_path_factory.mktemp("pool") / f"p{'.parquet' if form == 'parquet' else ''}"
    if form == "parquet":
        pq.write_table(pa.table(rows_of(pool_of(grid))), place)
    else:
        write_pool(pool_of(grid), place)
    pool = read_pool(place)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(spool, "MAX_BYTES_IN_MEMORY", 0)
        kept = read_pool(place)
    texts = np.asarray(kept.texts)
    assert find_file_texts(kept.texts) is not None or not any(text for row in grid for text in row)
    assert texts.tolist() == pool.texts.tolist()
    assert (kept.digest, kept.agents, kept.items, kept.n_missing) == (
        pool.digest,
        pool.agents,
        pool.items,
        pool.n_missing,
    )
    assert kept.lengths.tolist() == pool.lengths.tolist()
    np.testing.assert_array_equal(mean_lengths(kept.texts), mean_lengths(pool.texts))


@pytest.mark.usefixtures("small")
def test_file_texts_support_array_indexing(tmp_path: Path) -> None:
    grid = [[f"{'é' * (i == 1)} text {i} {j}" if (i + j) % 4 else None for j in range(1, 5)] for i in range(3)]
    write_pool(pool_of(grid), tmp_path / "p")
    texts, array = not_none(find_file_texts(read_pool(tmp_path / "p").texts)), np.array(grid, dtype=object)
    mask = np.array([[text is not None for text in row] for row in grid])
    agents, items = np.array([2, 0, 0, 1]), np.array([3, 1, 1, 0])
    for index in (0, -1, (1, 2), (slice(None), 1), (agents, items), mask, slice(1, None), np.ix_([2, 0], [1, 3]), ...):
        assert np.array_equal(texts[index], array[index])
    assert (texts.shape, texts.size, len(texts), texts.item(1, 1)) == (array.shape, 12, 3, array.item(1, 1))
    assert [row.tolist() for row in texts] == grid
    assert (texts.T.tolist(), list(texts.flat), texts.ravel().tolist()) == (
        array.T.tolist(),
        array.ravel().tolist(),
        array.ravel().tolist(),
    )
    assert np.vstack([texts, array]).tolist() == [*grid, *grid]
    assert np.concatenate([texts, array], axis=1).shape == (3, 8)
    assert pickle.loads(pickle.dumps(texts)).tolist() == grid  # noqa: S301
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda n: texts.item(n % 3, n % 4), range(2000))) == [
            array.item(n % 3, n % 4) for n in range(2000)
        ]


@pytest.mark.usefixtures("small")
@pytest.mark.posix
def test_a_full_disk_is_a_clear_error(tmp_path: Path) -> None:
    import resource

    write_pool(pool_of([["text " * 100] * 4] * 3), tmp_path / "p")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(PoolError, match="no space for a copy") as caught:
            read_pool(tmp_path / "p")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.slug == "disk-full"


@pytest.mark.slow
def test_a_run_with_texts_in_a_file_writes_the_same_files_as_one_in_memory(
    youden: Youden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    grid = [[" ".join(f"w{j}x{k}" for k in rng.choice(20, 6)) for j in range(12)] for _ in range(5)]
    agents, items = tuple(Agent(f"a{i}") for i in range(5)), tuple(Item(f"i{j}") for j in range(12))
    write_pool(Pool(agents, items, np.array(grid, dtype=object)), tmp_path / "p")
    for name, maximum in (("held", 10**9), ("kept", 10)):
        monkeypatch.setattr(spool, "MAX_BYTES_IN_MEMORY", maximum)
        write_config(
            tmp_path / f"{name}.yaml",
            pool="p",
            judge="lexical",
            calls=100,
            independent="pooled:10",
            name="same",
            out=name,
        )
        assert youden("run", f"{name}.yaml").code == 0
    for file in ("plan.parquet", "pool.json", "verdicts.parquet", "ranking.csv", "signature.json"):
        assert (tmp_path / "held" / file).read_bytes() == (tmp_path / "kept" / file).read_bytes(), file


@given(
    texts=st.lists(st.one_of(st.none(), st.text(max_size=30), st.text(st.characters(max_codepoint=127), max_size=30)))
)
def test_mean_lengths_count_words(texts: list[str | None]) -> None:
    counts = [len(split_words(text)) for text in texts if text is not None]
    result = mean_lengths(np.array([texts], dtype=object).reshape(1, -1))
    assert result.tolist() == ([np.mean(counts)] if counts else pytest.approx([np.nan], nan_ok=True))


@given(texts=st.lists(st.one_of(st.none(), st.text(max_size=9), st.text(st.characters(max_codepoint=127))), min_size=1))
def test_a_digest_is_that_of_ascii_json(texts: list[str | None]) -> None:
    pool = Pool((Agent("a"),), tuple(Item(f"i{j}", "é") for j in range(len(texts))), np.array([texts], dtype=object))
    parts = [["a"], [[item.id, item.prompt] for item in pool.items], texts]
    output = "".join(json.dumps(part, ensure_ascii=True, separators=(",", ":")) + "\n" for part in parts)
    assert pool.digest == hashlib.sha256(output.encode()).hexdigest()


def test_a_damaged_row_among_valid_ones_is_an_error_with_its_location(tmp_path: Path) -> None:
    good = {"agent": ["a"] * 12_000, "item": [f"i{k}" for k in range(12_000)], "text": ["t"] * 12_000}
    for column, value, slug in (
        ("agent", " ", "pool-id"),
        ("item", "i7", "pool-duplicate"),
    ):
        bad: dict[str, list[str | None]] = {name: [*values] for name, values in good.items()}
        bad[column][11_000] = value
        pq.write_table(pa.table(bad), tmp_path / "p.parquet")
        with pytest.raises(PoolError, match="row 11001") as caught:
            read_pool(tmp_path / "p.parquet")
        assert caught.value.slug == slug
