"""Which job carries which scenario."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from config.jobs import division_problem, job_of, process_of, read_division, words_of
from config.settings import Settings

DIVISION = "shop: orders, invoices; edge: attack"
KNOWN = ["attack", "orders", "invoices", "connectivity"]


def settings(folder: Path, **changes: object) -> Settings:
    return Settings(_env_file=None, data_dir=folder, **changes)  # type: ignore[arg-type,call-arg]


def test_a_scenario_that_no_job_is_named_for_is_the_main_jobs():
    division = read_division(f" {DIVISION} ; ")
    assert division == {"shop": ("orders", "invoices"), "edge": ("attack",)}
    assert [job_of(division, name) for name in KNOWN] == ["edge", "shop", "shop", ""]
    assert read_division("") == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("orders, attack", "expected jobs with their scenarios"),
        ("shop:", "expected jobs with their scenarios"),
        ("Shop: orders", "expected jobs with their scenarios"),
        ("shop: Orders", "expected jobs with their scenarios"),
        ("shop: orders; shop: attack", "shop is named twice"),
        ("shop: orders; edge: attack, orders", "orders is named twice"),
        ("shop: orders, orders", "orders is named twice"),
    ],
)
def test_a_division_that_means_nothing_or_two_things_is_refused(text: str, words: str):
    with pytest.raises(ValueError, match=words):
        read_division(text)
    with pytest.raises(ValidationError, match=words):
        settings(Path("/nowhere"), job_scenarios=text)


def test_a_division_has_to_fit_the_scenarios(tmp_path: Path):
    assert division_problem(read_division(DIVISION), KNOWN) == ""
    assert "'invoices' of the job shop is no scenario" in division_problem(
        read_division(DIVISION), ["attack", "orders"]
    )
    every = settings(tmp_path, job_scenarios="shop: orders; edge: attack")
    with pytest.raises(ValueError, match=r"JOB_SCENARIOS is .*: every scenario is named"):
        every.carried(["attack", "orders"])


def test_each_job_has_its_scenarios_and_folders_of_its_own(tmp_path: Path):
    main = settings(tmp_path, job_scenarios=DIVISION, spark_ui_port=4040)
    shop, edge = main.for_job("shop"), main.for_job("edge")
    assert main.carried(KNOWN) == ["connectivity"]
    assert shop.carried(KNOWN) == ["orders", "invoices"]
    assert edge.carried(KNOWN) == ["attack"]
    assert main.checkpoint_dir == tmp_path / "checkpoint"
    assert shop.checkpoint_dir == tmp_path / "checkpoint" / "jobs" / "shop"
    assert [main.ui_port_of(job) for job in ("", "shop", "edge", "gone")] == [4040, 4041, 4042, 0]


def test_a_job_that_the_division_does_not_name_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match=r"--job shop: .*names no such job: expected one of none"):
        settings(tmp_path).for_job("shop")


def test_a_job_is_called_by_its_name():
    assert (process_of(""), process_of("shop")) == ("job", "job-shop")
    assert process_of("shop", "standby") == "standby-shop"
    assert (words_of(""), words_of("shop")) == ("the job", "the job shop")
