"""Test variance components against planted ones, and the comparison of halves of an agent."""

from __future__ import annotations

import html
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from commands import Youden
from narrowing import not_none
from small_pools import make_pool
from youden import make_plan
from youden.data.folder.run_folder import RunFolder
from youden.errors import InputError, StatisticsError
from youden.pipeline import variance_components
from youden.pipeline.abilities import estimate_mean_abilities
from youden.pipeline.multi_judge import JudgeSpread, is_training_answer, measure_judge_spread
from youden.pipeline.variance_components import study_variance
from youden.stats.trials.variance_parts import VarianceComponents
from youden.text.tables import to_markdown
from youden.types import PAIRED, Plan, Pool, Verdicts
from youden.workflows.halves import run_aa_test, split_into_halves


def pool_of(n_repeats: int, *, n_agents: int = 8, n_items: int = 40) -> Pool:
    pool = make_pool(n_agents, n_items)
    return Pool.from_repeats(pool.agents, pool.items, [pool.texts] * n_repeats, "simulated")


def answers(
    plan: Plan, *, seed: int, items: float = 0.0, luck: float = 0.0, rest: float = 0.0, rate: float = 0.0
) -> Verdicts:
    """Answer with effects of these variances, and independent trials with yes at this rate."""
    rng = np.random.default_rng(seed)
    shape = plan.n_agents, plan.n_items
    asked = (plan.trials if plan.trials.first_repeat is not None else plan.trials.with_first_repeats()).columns()
    ability, own = rng.normal(0, 0.1, plan.n_agents), rng.normal(0, items**0.5, shape)
    chance = rng.normal(0, luck**0.5, (5, *shape))
    answer = 0.5 + rng.normal(0, 0.2, plan.n_items)[plan.item] + rng.normal(0, rest**0.5, len(plan))
    for agent, repeat in (("first", "first_repeat"), ("second", "second_repeat")):
        who, which = asked[agent], asked[repeat] - 1
        answer = answer + ability[who] + own[who, plan.item] + chance[which, who, plan.item]
    is_independent = plan.trial_type != PAIRED
    answer[is_independent] = rng.random(is_independent.sum()) < rate
    return Verdicts(plan, answer, answer, np.zeros(len(plan), np.int8), {"name": "simulated"})


def parts_of(result: Verdicts) -> VarianceComponents:
    plan, used = result.plan, is_training_answer(result)
    asked = plan.trials.columns()
    repeats = {name: asked[name][used] for name in ("first_repeat", "second_repeat") if name in asked}
    return VarianceComponents(
        plan.first[used],
        plan.second[used],
        plan.item[used],
        result.answer[used],
        ability=estimate_mean_abilities(result).ability,
        n_items=plan.n_items,
        **repeats,
    )


@pytest.mark.parametrize("moving", ["items", "luck", "rest"])
def test_a_planted_variance_component_is_recovered(moving: str) -> None:
    plan = make_plan(pool_of(3), calls=2000)
    result = parts_of(answers(plan, seed=1, **{moving: 0.04}))
    sizes = {"items": result.agent_item, "luck": result.response, "rest": result.residual}
    assert not_none(sizes[moving]).value == pytest.approx(0.04, rel=0.3)
    assert all(abs(not_none(part).value) < 0.004 for name, part in sizes.items() if name != moving)


def test_without_repeats_response_variance_is_unknown_and_part_of_the_items() -> None:
    plan = make_plan(pool_of(1), calls=2000)
    result = parts_of(answers(plan, seed=2, items=0.02, luck=0.02))
    assert result.response is None
    assert result.agent_item.value == pytest.approx(0.04, rel=0.3)


def test_the_components_of_an_ability_sum_to_its_variance() -> None:
    plan = make_plan(pool_of(3), calls=2000)
    gaps, output = [], []
    for seed in range(25):
        result = answers(plan, seed=seed, items=0.02, luck=0.02, rest=0.05)
        actual, fitted = parts_of(result), estimate_mean_abilities(result)
        assert actual.response is not None
        own = actual.agent_item.value * (actual.agent_item_factor + actual.partner_factor)
        output.append(
            own
            + actual.response.value * (actual.response_factor + actual.partner_factor)
            + actual.residual.value * actual.residual_factor
        )
        gaps.append(np.mean(fitted.covariance.std_error**2))
    assert np.mean(output) == pytest.approx(np.mean(gaps), rel=0.2)


def test_too_few_data_for_variance_components_are_refused() -> None:
    with pytest.raises(StatisticsError, match=r"\[variance-few\]"):
        parts_of(answers(make_plan(pool_of(1, n_items=4), calls=100, independent="pooled:10"), seed=0))


def test_halves_of_an_agent_are_never_compared_and_share_its_trials() -> None:
    result = answers(make_plan(pool_of(4), calls=2000), seed=3, luck=0.02, rest=0.02)
    halved = split_into_halves(result, np.random.default_rng(0))
    K = result.plan.n_agents
    assert (halved.plan.first % K != halved.plan.second % K).all()
    assert np.array_equal(halved.plan.first % K, result.plan.first)
    n = np.bincount(halved.plan.first, minlength=2 * K)
    assert (np.abs(n[:K] - n[K:]) < 0.2 * (n[:K] + n[K:])).all()


def test_different_halves_are_significant_and_equal_ones_rarely() -> None:
    plan = make_plan(pool_of(4), calls=2000)
    output = answers(plan, seed=4, items=0.02, luck=0.02, rest=0.03)
    aa_test = run_aa_test(replace(output, answer=output.answer / 4), n_splits=5)  # scores lie in [−1, 1]
    assert aa_test.significant_rate <= 0.05
    assert aa_test.gated_worse <= 0.05
    assert aa_test.n_pairs == 5 * output.plan.n_agents
    assert aa_test.summary.startswith(f"Of {aa_test.n_pairs} pairs")
    assert run_aa_test(output, n_splits=0).summary.startswith("Nothing was tested")


def test_halves_of_a_search_are_ranked_without_its_rounds() -> None:
    result = answers(make_plan(pool_of(4), design="adaptive", calls=1600), seed=6, luck=0.02, rest=0.02)
    assert run_aa_test(result, n_splits=2).n_pairs == 2 * result.plan.n_agents


def test_a_pool_without_repeats_is_refused_with_what_halves_need() -> None:
    with pytest.raises(InputError, match=r"column `repeat`.*\[aa-repeats\]"):
        run_aa_test(answers(make_plan(pool_of(1), calls=500), seed=0))


def test_the_judge_component_is_zero_for_equal_judges_and_their_variance_otherwise() -> None:
    plan = make_plan(pool_of(1), calls=2000)
    base = answers(plan, seed=5, items=0.01, rest=0.02)
    rng = np.random.default_rng(6)

    def judged(spread: float) -> Verdicts:
        own = rng.normal(0, spread, plan.n_agents)
        answer = base.answer + np.where(plan.trial_type == PAIRED, own[plan.first] + own[plan.second], 0.0)
        return replace(base, answer=answer, hard_answer=answer)

    alike = measure_judge_spread([judged(0.0) for _ in range(4)])
    apart = measure_judge_spread([judged(0.05) for _ in range(4)])
    assert alike.variance == pytest.approx(0.0, abs=1e-9)
    assert alike.n_effective == pytest.approx(1.0)
    assert np.allclose(alike.covariance.std_error, estimate_mean_abilities(base).covariance.std_error, rtol=0.02)
    assert apart.variance**0.5 == pytest.approx(0.05, rel=0.5)
    assert apart.low < 0.05**2 < apart.high
    assert apart.n_effective > 1
    assert (apart.covariance.half_width() > 1.5 * alike.covariance.half_width()).all()


def test_one_judge_has_no_judge_component() -> None:
    mean_abilities = estimate_mean_abilities(answers(make_plan(pool_of(1), calls=500), seed=0))
    with pytest.raises(StatisticsError, match=r"\[judges-few\]"):
        JudgeSpread(mean_abilities.ability[None], mean_abilities.covariance, np.zeros(8), 0.0)


@pytest.mark.slow
def test_compare_ranks_by_the_average_of_judges_and_states_their_effective_number(youden: Youden, mine: Path) -> None:
    shutil.copytree(mine / "demo", mine / "run")
    shutil.copytree(mine / "demo", mine / "again")
    output = youden("compare", "run", "again", "--target", "items-and-judges")
    assert output.code == 0
    assert output.out.startswith("Candidates: telegraphic, ")
    assert "2 judges are worth 1.0 independent votes" in output.out
    assert "judge the plan with a third" in output.out
    assert (
        len(json.loads(youden("compare", "run", "again", "--target", "items-and-judges", "--json").out)["agents"]) == 12
    )


@pytest.mark.slow
def test_a_run_reports_its_variance_components_and_commands_for_the_unknown_ones(youden: Youden, mine: Path) -> None:
    output = youden("study", "variance", "demo")
    assert output.code == 0
    assert "Mostly the items" in output.out
    assert "twice the paired calls on these items narrow it by" in output.out
    assert "youden calibrate demo/config.yaml" in output.out
    refused = youden("study", "aa", "demo")
    assert refused.code == 2
    assert "[aa-repeats]" in refused.err


@pytest.mark.slow
def test_the_report_shows_the_variance_components_of_its_fit(youden: Youden, mine: Path) -> None:
    folder, page = RunFolder(mine / "demo"), mine / "demo" / "report.html"
    result = folder.read_variance_components()
    assert result == study_variance(folder)
    text = page.read_text(encoding="utf-8")
    assert "Variance components" in text
    assert result.summary in html.unescape(text)
    for part in result.components:
        assert part.name in html.unescape(text)
    figure = json.loads(not_none(re.search(r'id="figure-data">(.*?)</script>', text, re.DOTALL))[1])["variance"]
    assert len(figure["frame"]["value"]) == sum(part.ability_variance is not None for part in result.components)
    assert result.summary in youden("report", "demo", "--format", "md").out.replace("\\", "")
    shutil.copytree(mine / "demo", mine / "again")
    unknown_judge = re.search(
        r"another one of this kind\. To measure it: <code>youden rejudge (\S+) --judge OTHER</code>", text
    )
    assert Path(not_none(unknown_judge)[1]).name == "demo"
    assert youden("study", "variance", "demo", "again").code == 0
    assert youden("report", "demo").code == 0
    assert "the judge: another one of this kind. To measure it" not in html.unescape(page.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_a_fit_of_many_comparisons_names_the_command_for_variance_components(
    youden: Youden, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(variance_components, "MAX_NUMBERS", 10)
    assert youden("fit", "demo").code == 0
    assert not (mine / "demo" / "variance_components.json").exists(), "that of the fit before is not this one's"
    assert youden("report", "demo").code == 0
    page = mine / "demo" / "report.html"
    command = re.search(r"youden study variance (\S+)</code>", page.read_text(encoding="utf-8"))
    assert Path(not_none(command)[1]).name == "demo"
    assert youden("study", "variance", "demo").code == 0
    assert youden("report", "demo").code == 0
    assert "Mostly the items" in page.read_text(encoding="utf-8")


def test_components_of_few_agents_are_reported_without_an_interval(youden: Youden, tmp_path: Path) -> None:
    pool = pool_of(1)
    few = Pool(pool.agents[:4], pool.items, pool.texts[:4], "few")
    plan = make_plan(few)
    folder = RunFolder(tmp_path / "run")
    (tmp_path / "run").mkdir()
    result = variance_components.decompose_variance(answers(plan, seed=1, items=0.02, rest=0.02), "run")
    folder.write_variance_components(result)
    assert folder.read_variance_components() == result
    assert "nan" not in to_markdown(variance_components.build_variance_table(result))


def test_shares_of_variance_components_sum_to_one_if_an_estimate_is_negative() -> None:
    plan = make_plan(pool_of(3, n_agents=5, n_items=24), calls=1000)
    result = variance_components.decompose_variance(answers(plan, seed=6, rest=0.2, rate=0.1), "run")
    included = [part.ability_variance for part in result.components if part.in_interval]
    assert min(not_none(variance).value for variance in included) < 0
    table = to_markdown(variance_components.build_variance_table(result))
    shares = [int(share) for share in re.findall(r"\| (\d+)% ", table)[1:]]  # the first match is the heading "95%"
    assert len(shares) == len(included)
    assert sum(shares) == pytest.approx(100, abs=len(shares) / 2)


@pytest.mark.parametrize(
    ("variances", "said"),
    [
        ({"items": 0.3, "rest": 0.02}, "Mostly the items"),
        ({"luck": 0.3, "rest": 0.02}, "Mostly the responses"),
        ({"items": 0.001, "rest": 0.5}, "Mostly too few calls"),
        ({"items": 0.001, "rest": 0.001, "rate": 0.5}, "Mostly the false-positive rates"),
    ],
)
def test_the_summary_names_the_largest_variance_component(variances: dict[str, float], said: str) -> None:
    plan = make_plan(pool_of(3), calls=3000)
    assert variance_components.decompose_variance(answers(plan, seed=1, **variances), "run").summary.startswith(said)
