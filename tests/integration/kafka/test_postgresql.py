"""PostgreSQL holds what SQLite holds: the upsert, the history, reading as of one moment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.web.postgresql import empty_database

ROOT = Path(__file__).resolve().parents[3]


def outcome_of(program: str, folder: Path, **environment: str) -> dict[str, Any]:
    """Run a program of `tests/support/web/` with its data in a folder; return what it prints."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/support/web" / program)],
        env=os.environ | {"TALLYBOARD_DATA_DIR": str(folder)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_postgresql_and_sqlite_hold_the_same(url, tmp_path):
    own = {"TALLYBOARD_DATABASE_URL": empty_database(url, "played")}
    sqlite = outcome_of("played_job.py", tmp_path / "sqlite")
    postgresql = outcome_of("played_job.py", tmp_path / "postgresql", **own)
    assert postgresql == sqlite
    assert postgresql["again"] == postgresql["first"]
    assert len(postgresql["first"][0]) > 5
    assert len(postgresql["first"][1]) > 20
    assert (postgresql["divergences"], postgresql["differences"]) == (0, 0)


@pytest.mark.extensive(
    guard="tests/integration/kafka/test_postgresql.py::test_postgresql_and_sqlite_hold_the_same"
)
def test_two_materialisers_of_one_partition_count_each_change_once(url, tmp_path):
    database = empty_database(url, "rivals")
    seen = outcome_of("rivals.py", tmp_path, TALLYBOARD_DATABASE_URL=database)
    assert seen["kept"] == seen["rows"]
    assert sum(seen["kept"].values()) > 10
    assert seen["wrong"] == []
    assert seen["indexed"]


@pytest.mark.extensive(
    guard="tests/unit/domain/test_history_sums.py::test_sums_are_those_of_each_minute"
)
def test_a_month_is_summed_up_alike(url, tmp_path):
    own = {"TALLYBOARD_DATABASE_URL": empty_database(url, "summed")}
    sqlite = outcome_of("summed_month.py", tmp_path / "sqlite")
    postgresql = outcome_of("summed_month.py", tmp_path / "postgresql", **own)
    assert postgresql == sqlite
    assert postgresql["month"] == postgresql["independent"]
    assert all(postgresql["month"][:3])
    assert postgresql["hours"] > 1_000
    assert postgresql["differences"] == []
    assert len(postgresql["tiles"]) > 5


@pytest.mark.extensive(
    guard="tests/web/core/test_audit.py::test_each_entry_follows_from_the_one_before"
)
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_the_audit_holds_against_many_at_once_and_an_admin_is_left(request, tmp_path, database):
    more = {}
    if database == "postgresql":
        more["TALLYBOARD_DATABASE_URL"] = empty_database(request.getfixturevalue("url"), "audited")
    outcome = outcome_of("audit_race.py", tmp_path, **more)
    assert (outcome["entries"], outcome["last"], outcome["fault"]) == (320, 320, "")
    assert all(outcome["refused"]), outcome["refused"]
    assert outcome["active"] == [1] * 5


@pytest.mark.extensive(
    guard="tests/web/core/test_one_time_codes.py::test_of_two_logins_at_once_one_wins"
)
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_of_many_logins_at_once_with_one_code_one_is_let_in(request, tmp_path, database):
    more = {}
    if database == "postgresql":
        more["TALLYBOARD_DATABASE_URL"] = empty_database(request.getfixturevalue("url"), "codes")
    outcome = outcome_of("code_race.py", tmp_path, **more)
    assert outcome == {"vendor": database, "totp": [1] * 5, "recovery_codes": [1] * 5}


@pytest.mark.extensive(
    guard="tests/unit/operate/test_retention.py::test_history_is_deleted_after_three_months"
)
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_nobody_waits_long_while_old_changes_are_deleted(request, tmp_path, database):
    more = {}
    if database == "postgresql":
        more["TALLYBOARD_DATABASE_URL"] = empty_database(request.getfixturevalue("url"), "retained")
    outcome = outcome_of("retention_race.py", tmp_path, **more)
    assert (outcome["vendor"], outcome["deleted"], outcome["left"]) == (database, 40_000, 0)
    assert outcome["largest"] <= 900
    assert outcome["written"] >= 10
    assert max(outcome["longest_s"].values()) < min(2, outcome["took_s"]), outcome


@pytest.mark.extensive(
    guard="tests/integration/kafka/test_postgresql.py::test_postgresql_and_sqlite_hold_the_same"
)
def test_a_table_that_has_just_begun_to_grow_is_analyzed_once(url, tmp_path):
    database = empty_database(url, "analyzed")
    seen = outcome_of("analyzed_tables.py", tmp_path, TALLYBOARD_DATABASE_URL=database)
    assert seen == {"runs": [["grown"], []], "rows": 1000}
