"""Test that a YAML config determines the run, and that invalid keys are refused with file and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from youden.data.folder.extension_steps import ExtensionStep, UnfinishedExtension
from youden.data.folder.run_config import RunConfig, dump_run_config, load_run_config
from youden.errors import ConfigError, RunFolderError
from youden.judging.config.judge_files import load_judge_config


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def refused(path: Path, *parts: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_run_config(path)
    for part in (path.name, *parts):
        assert part in str(caught.value), str(caught.value)


def test_a_config_with_only_a_pool_uses_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load_run_config(write(tmp_path / "try.yaml", "pool: pool.csv\n"))
    assert config == RunConfig.model_validate({"name": "try", "pool": str(tmp_path / "pool.csv")})
    assert (config.judge, config.design, config.holdout_rule, config.seed) == ("lexical", "cyclic", "strict", 0)
    assert (config.calls, config.independent, config.holdout, config.max_cost, config.options) == (
        None,
        None,
        None,
        None,
        {},
    )
    assert config.folder == Path("runs/try")
    monkeypatch.chdir(tmp_path)
    assert config.store_location == str(Path(".youden/answers.db"))


def test_every_key_of_a_config_is_read(tmp_path: Path) -> None:
    text = """
name: all
pool: ../pool
judge: {backend: openai, model: m}
design: dense
calls: 5%
independent: pooled:0
holdout: .2
holdout_rule: paper
seed: 3
store: sqlite:///shared.db
max_cost: 1.5
out: ../runs/all
"""
    config = load_run_config(write(tmp_path / "c" / "run.yaml", text))
    assert config.pool == str(tmp_path / "pool")
    assert config.judge == {"backend": "openai", "model": "m"}
    assert (config.calls, config.holdout, config.max_cost) == ("5%", 0.2, 1.5)
    assert config.store_location == "sqlite:///shared.db"
    assert config.folder == tmp_path / "runs" / "all"


def test_paths_are_relative_to_the_config_and_overrides_to_the_working_directory(tmp_path: Path) -> None:
    path = write(tmp_path / "run.yaml", "pool: p\njudge: judges/mine.yaml\nstore: v.db\nout: out\n")
    config = load_run_config(path)
    assert [config.pool, config.judge, config.store, config.out] == [
        str(tmp_path / name) for name in ("p", "judges/mine.yaml", "v.db", "out")
    ]
    changed = load_run_config(path, {"judge": "mine.yaml", "max_cost": 2.0})
    assert (changed.judge, changed.max_cost, changed.pool) == ("mine.yaml", 2.0, config.pool)


@pytest.mark.parametrize(
    ("config", "judge"),
    [
        ("mine.yaml", "judges/local2.yaml"),
        ("mine.yaml", "configs/judges/local2.yaml"),
        ("configs/runs/mine.yaml", "configs/judges/local2.yaml"),
    ],
)
def test_a_judge_in_the_folder_of_a_config_is_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str, judge: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    write(tmp_path / judge, "backend: wire\nmodel: m\nbase_url: http://127.0.0.1:9/v1\nprice: 0\n")
    file = write(tmp_path / config, "pool: p\njudge: local2\n")
    run_config = load_run_config(file)
    assert load_judge_config(run_config.judge).name == "local2"
    assert run_config.judge == str(tmp_path / judge)
    assert load_run_config(file, {"judge": "local2"}).judge == run_config.judge
    assert load_run_config(write(file, "pool: p\njudge: lexical\n")).judge == "lexical"
    again = write(tmp_path / "runs" / "mine" / "config.yaml", dump_run_config(run_config, tmp_path / "runs" / "mine"))
    assert load_run_config(again).judge == run_config.judge


def test_a_shipped_judge_stays_a_name_and_its_file_is_found_by_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_run_config("configs/runs/field-notes.yaml", {"judge": "gpt-4o-mini"}).judge == "gpt-4o-mini"
    config = load_run_config(write(tmp_path / "a" / "mine.yaml", "pool: p\njudge: configs/judges/local.yaml\n"))
    assert load_judge_config(config.judge).name == "local"


def test_a_shipped_pool_and_config_are_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "configs" / "runs" / "mine.yaml", "pool: datasets/field-notes\n")
    assert load_run_config("configs/runs/mine.yaml").pool == "datasets/field-notes"
    (tmp_path / "configs" / "runs" / "datasets" / "field-notes").mkdir(parents=True)
    assert load_run_config("configs/runs/mine.yaml").pool == str(Path("configs/runs/datasets/field-notes"))
    with pytest.raises(ConfigError, match=r"nobody\.yaml.*not-found"):
        load_run_config("configs/nobody.yaml")


FAULTS = {
    "unknown key": (
        "pool: p\nholdot: 0.1\n",
        ["unknown key 'holdot'", "Did you mean 'holdout'?", "Known: name, pool"],
    ),
    "no pool": ("seed: 1\n", ["'pool' is missing"]),
    "wrong type": ("pool: p\nseed: '1'\n", ["'seed' is '1'", "integer"]),
    "a yes": ("pool: p\nseed: yes\n", ["'seed' is True", "integer"]),
    "out of range": ("pool: p\nholdout: 1\n", ["'holdout' is 1", "less than 1"]),
    "not finite": ("pool: p\nmax_cost: .nan\n", ["'max_cost' is nan", "finite"]),
    "percent": ("pool: p\npercent: 5\n", ["unknown key 'percent'", "Set `calls: 5%`"]),
    "trials": ("pool: p\ntrials: 450\n", ["unknown key 'trials'", "Set `calls: 450/agent`"]),
    "n_independent": ("pool: p\nn_independent: 9\n", ["unknown key", "Set `independent: pooled:9`"]),
    "width_share": ("pool: p\nwidth_share: .5\n", ["unknown key 'width_share'. Remove it."]),
    "no such rule": ("pool: p\nholdout_rule: mine\n", ["'holdout_rule' is 'mine'", "'strict' or 'paper'"]),
    "key twice": ("pool: p\nseed: 1\nseed: 2\n", ["'seed' occurs twice", "line 3"]),
    "no YAML": ("pool: [\n", ["not YAML", "line 2"]),
    "a list": ("- pool\n", ["['pool']", "key: value"]),
    "empty": ("", ["is empty"]),
    "a name that leaves the folder": ("pool: p\nname: ../x\n", ["'name' is '../x'"]),
    "empty pool": ("pool: ''\n", ["'pool' is ''"]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_config_is_refused_with_key_value_and_allowed_values(tmp_path: Path, fault: str) -> None:
    text, parts = FAULTS[fault]
    refused(write(tmp_path / "run.yaml", text), *parts)


def test_the_error_for_an_unknown_key_advises_no_other_value(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'question'") as refused:
        load_run_config(write(tmp_path / "run.yaml", "pool: p\nqestion: preference\n"))
    assert "Set another value" not in refused.value.message


@pytest.mark.parametrize(
    ("written", "value"), [("4000", 4000), ("5 %", "5%"), ("0.5%", "0.5%"), ("450 / agent", "450/agent"), ("'60'", 60)]
)
def test_a_budget_is_calls_percent_or_trials_per_agent(tmp_path: Path, written: str, value: object) -> None:
    config = load_run_config(write(tmp_path / "run.yaml", f"pool: p\ncalls: {written}\n"))
    assert config.calls == value
    saved = write(tmp_path / "out" / "config.yaml", dump_run_config(config, tmp_path / "out"))
    assert load_run_config(saved).calls == value


@pytest.mark.parametrize(
    "written",
    [
        "0",
        "-1",
        ".nan",
        "1e400",
        "1.0e+400",
        "4.5",
        "200%",
        "0%",
        "5 percent",
        "true",
        "[5%]",
        "{a: 1}",
        "450/agents",
        "''",
    ],
)
def test_an_invalid_budget_is_refused_with_the_three_forms(tmp_path: Path, written: str) -> None:
    forms = ["a number of calls (4000)", "a percentage of the dense calls (5%)", "trials per agent (450/agent)"]
    refused(write(tmp_path / "run.yaml", f"pool: p\ncalls: {written}\n"), "'calls' is ", *forms)


def test_a_folder_of_an_earlier_version_is_refused_and_unchanged(tmp_path: Path) -> None:
    text = "name: run\npool: p\ntrials: 40\nholdout_partners: 3\ndrawn: {pool: abc, budget: 220}\n"
    file = write(tmp_path / "run" / "config.yaml", text)
    with pytest.raises(RunFolderError, match=r"written by youden 0\.2\.0 or earlier.*\[run-version\]"):
        load_run_config(file)
    assert file.read_text(encoding="utf-8") == text


def test_an_unreadable_config_is_refused(tmp_path: Path) -> None:
    refused(tmp_path / "none.yaml", "cannot be read")
    (tmp_path / "latin.yaml").write_bytes("pool: café\n".encode("latin-1"))
    refused(tmp_path / "latin.yaml", "UTF-8")


@pytest.mark.parametrize("store", ["", "store: ../v.db\n", "store: sqlite:///v.db\n"])
def test_a_config_dumped_to_another_folder_loads_as_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str
) -> None:
    monkeypatch.chdir(tmp_path)
    config = load_run_config(write(Path("c/run.yaml"), "pool: ../data/p\njudge: j.yaml\ncalls: 40\n" + store))
    text = dump_run_config(config, config.folder)
    again = load_run_config(write(config.folder / "config.yaml", text))
    assert str(tmp_path) not in text
    assert again == config.model_copy(update={"out": str(config.folder)})
    assert again.store_location == config.store_location


def test_the_prompt_of_a_judge_in_a_config_is_found_from_the_folder_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (Path(), Path("c")):
        config = load_run_config(
            write(folder / "run.yaml", "pool: p\njudge: {backend: openai, model: m, prompt: own.md}\n")
        )
        text = dump_run_config(config, config.folder)
        again = load_run_config(write(config.folder / "config.yaml", text))
        assert again.judge == config.judge == {"backend": "openai", "model": "m", "prompt": str(folder / "own.md")}


def test_the_judges_of_a_judge_in_a_config_are_found_from_the_folder_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    jury = "{backend: jury, judges: [a.yaml, {backend: replay, replay_of: b.yaml}, lexical, configs/judges/local.yaml]}"
    config = load_run_config(write(Path("c/run.yaml"), f"pool: p\njudge: {jury}\n"))
    again = load_run_config(write(config.folder / "config.yaml", dump_run_config(config, config.folder)))
    members = [str(Path("c/a.yaml")), {"backend": "replay", "replay_of": str(Path("c/b.yaml"))}]
    assert again.judge == config.judge
    assert config.judge == {"backend": "jury", "judges": [*members, "lexical", "configs/judges/local.yaml"]}


def test_a_dumped_config_keeps_the_name_of_a_shipped_pool_and_no_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    judge = {"backend": "openai", "base_url": "https://me:secret@host/v1"}
    text = dump_run_config(
        RunConfig.model_validate({"name": "n", "pool": "datasets/field-notes", "judge": judge}), Path("runs/n")
    )
    assert "pool: datasets/field-notes\n" in text
    assert "secret" not in text
    assert "https://host/v1" in text


@pytest.mark.parametrize(
    ("options", "command"),
    [
        ({"calls": 40, "focus": ["a", "b"]}, "youden extend calls run 40 --focus a --focus b"),
        ({"half_width": 0.05, "max_cost": 1.5}, "youden extend half-width run 0.05 --max-cost 1.5"),
        ({"agents": "new", "half_width": 0.05}, "youden extend agents run new --half-width 0.05"),
        ({"calls": 40, "top": 2}, "youden extend best run --calls 40 --top 2"),
    ],
)
def test_the_command_that_finishes_an_extension_has_its_options(options: dict[str, object], command: str) -> None:
    state = {"pool": "digest", "first": 0, "number": 0, "step": ExtensionStep(calls=40)}
    unfinished = UnfinishedExtension.model_validate(options | state)
    assert unfinished.format_command(Path("run")) == command
