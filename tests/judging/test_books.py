"""What a run paid in all its passes is in its totals: interrupted, killed, or tried before."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from commands import Youden, write_config
from pools import make_pool
from wire_server import Reply, WireServer
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import write_pool
from youden.judging.call.failures import Failure
from youden.judging.store.answers import MOST_UNWRITTEN, open_store
from youden.judging.store.contract import Payment
from youden.nouns import CallFacts, Completion

A_CALL = 0.01
ANSWER = Completion("YES", "stop", "m", 99, 1, 0.5)


@pytest.fixture
def here(tmp_path: Path, server: WireServer) -> Path:
    write_pool(make_pool(5, 8), tmp_path / "pool")
    priced = {"backend": "wire", "model": "m", "base_url": server.url, "api_key_env": None, "backoff": 0.001}
    priced |= {"price": 100, "max_tokens": 1, "concurrency": 1, "max_tries": 3}
    write_config(tmp_path / "paid.yaml", pool="pool", calls=110, n_independent=20, judge=priced)
    server.behave = honest
    return tmp_path


def honest(_n: int, body: Mapping[str, Any]) -> Reply:
    """100 tokens a call; YES where both texts speak of one item, which a template planted by a calibration does of none."""
    items = re.findall(r"says something of item (\d+)", body["messages"][-1]["content"])
    same = len(items) == 2 and items[0] == items[1]
    return Reply("YES" if same else "NO", usage={"prompt_tokens": 99, "completion_tokens": 1})


def calls_of(here: Path, run: str = "runs/paid") -> CallFacts:
    folder = RunFolder(here / run)
    return CallFacts.of(folder.read_verdicts(folder.read_plan()))


def test_every_pass_is_in_the_totals_and_each_has_the_cap_to_itself(
    youden: Youden, here: Path, server: WireServer
) -> None:
    asked = []
    while (ended := youden("judge", "paid.yaml", "--max-cost", "0.6")).code == 1:
        asked.append(server.n_requests - sum(asked))
        assert asked[-1] * A_CALL <= 0.6
        assert "0.6 USD" in ended.err
    assert ended.code == 0, ended.err
    assert len(asked) >= 1
    assert (calls_of(here).usd, calls_of(here).usd_calibration) == (pytest.approx(110 * A_CALL), 0)
    assert youden("judge", "paid.yaml", "--max-cost", "0.6").code == 0
    assert calls_of(here).usd == pytest.approx(110 * A_CALL)


def test_tries_that_were_paid_and_brought_nothing_are_in_the_totals_too(
    youden: Youden, here: Path, server: WireServer
) -> None:
    server.behave = lambda n, body: Reply(fault="html") if n == 5 else honest(n, body)
    assert youden("judge", "paid.yaml", "--max-cost", "0.3").code == 1
    assert youden("judge", "paid.yaml", "--max-cost", "50").code == 0
    assert calls_of(here).usd > 110 * A_CALL


def test_what_the_calibration_paid_for_answers_of_the_run_counts_and_is_told_apart(
    youden: Youden, here: Path, server: WireServer
) -> None:
    assert youden("calibrate", "paid.yaml", "--calls", "60", "--max-cost", "100").code in (0, 1)
    before = server.n_requests
    ended = youden("judge", "paid.yaml", "--max-cost", "100", "--json")
    calls = json.loads(ended.out)["calls"]
    n_new = server.n_requests - before
    assert 0 < n_new < 110
    assert calls["n_reused"] == 110 - n_new
    assert calls["usd"] == pytest.approx(110 * A_CALL)
    assert calls["usd_calibration"] == pytest.approx((110 - n_new) * A_CALL)
    assert (
        f"${(110 - n_new) * A_CALL:.4f} of it by its calibration" in youden("judge", "paid.yaml", "--max-cost", "1").err
    )


def test_a_run_that_moves_with_its_store_keeps_its_totals(youden: Youden, here: Path) -> None:
    assert youden("judge", "paid.yaml", "--max-cost", "0.5").code == 1
    (here / "runs/paid").rename(here / "moved")
    words = ("--out", "moved", "--max-cost", "5")
    assert youden("judge", "paid.yaml", *words).code == 0
    assert calls_of(here, "moved").usd == pytest.approx(110 * A_CALL)


def test_a_payment_is_written_with_its_answer_and_adds_up_by_payer(tmp_path: Path) -> None:
    path = tmp_path / "v.db"
    with open_store(path) as store, open_store(path) as other:
        for n in range(MOST_UNWRITTEN):
            assert other.paid("a") == {}
            store.pay("a", f"k{n}", Payment(0.5))
            store.pay("a", f"k{n}", Payment(1.0, 99, 1, 0.5))
            store.add(f"k{n}", ANSWER)
        assert len(other.answers([f"k{n}" for n in range(MOST_UNWRITTEN)])) == MOST_UNWRITTEN
        assert set(other.paid("a").values()) == {Payment(1.5, 99, 1, 0.5)}
        other.pay("a", "k0", Payment(2.0))
        other.pay("b", "k0", Payment(float("nan")))
        other.add("k0", Failure("retry", None, "lost"))
    with open_store(path) as store:
        assert store.paid("a")["k0"] == replace(Payment(3.5), tokens_in=99, tokens_out=1, seconds=0.5)
        assert str(store.paid("b")["k0"].usd) == "nan"
