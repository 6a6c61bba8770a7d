"""PostgreSQL holds what SQLite holds: the upsert, the history, reading as of one moment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ops.ports import free_port
from stack import wait_until

ROOT = Path(__file__).resolve().parents[3]
SERVER = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
USER = "postgres"


def as_user(command: list[str]) -> list[str]:
    """The command as a user that PostgreSQL runs under: not as root."""
    return ["runuser", "-u", USER, "--", *command] if os.geteuid() == 0 else command


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An empty PostgreSQL database, its server in a directory of its own."""
    if not SERVER:
        pytest.skip("PostgreSQL is not installed: no /usr/lib/postgresql/*/bin/postgres")
    folder = Path(f"/tmp/tallyboard-postgresql-{os.getpid()}")
    folder.mkdir(mode=0o755)
    if os.geteuid() == 0:
        shutil.chown(folder, USER)
    bin_, port, data = SERVER[-1].parent, free_port(), folder / "data"
    initdb = [str(bin_ / "initdb"), "-D", str(data), "-U", USER, "-A", "trust", "-E", "UTF8"]
    server = None
    try:
        subprocess.run(as_user(initdb), check=True, capture_output=True, cwd="/")
        options = ["-D", str(data), "-p", str(port), "-k", str(folder), "-h", "127.0.0.1"]
        with (tmp_path_factory.mktemp("postgresql") / "log").open("wb") as log:
            command = as_user([str(bin_ / "postgres"), *options])
            server = subprocess.Popen(command, stdout=log, stderr=log, cwd="/")
        ready = [str(bin_ / "pg_isready"), "-h", "127.0.0.1", "-p", str(port), "-U", USER]
        wait_until(lambda: subprocess.call(ready) == 0, 30, "PostgreSQL is not ready")
        yield f"postgres://{USER}@127.0.0.1:{port}/postgres"
    finally:
        if server is not None:
            server.terminate()
            server.wait(20)
        shutil.rmtree(folder, ignore_errors=True)


def played(folder: Path, **environment: str) -> dict[str, Any]:
    """What a database holds after the same played job."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "played_job.py")],
        env=os.environ | {"TALLYBOARD_DATA_DIR": str(folder)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_postgresql_and_sqlite_hold_the_same(url, tmp_path):
    sqlite = played(tmp_path / "sqlite")
    postgresql = played(tmp_path / "postgresql", TALLYBOARD_DATABASE_URL=url)
    assert postgresql == sqlite
    assert postgresql["again"] == postgresql["first"]
    assert len(postgresql["first"][0]) > 5
    assert len(postgresql["first"][1]) > 20
    assert (postgresql["divergences"], postgresql["differences"]) == (0, 0)


def test_two_materialisers_of_one_partition_count_each_change_once(url, tmp_path):
    with psycopg.connect(url, autocommit=True) as server:
        server.execute("CREATE DATABASE rivals")
    base = url.rpartition("/")[0]
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "rivals.py")],
        env=os.environ
        | {"TALLYBOARD_DATA_DIR": str(tmp_path), "TALLYBOARD_DATABASE_URL": f"{base}/rivals"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["kept"] == seen["rows"]
    assert sum(seen["kept"].values()) > 10
    assert seen["wrong"] == []
    assert seen["indexed"]


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_the_audit_holds_against_many_at_once_and_an_admin_is_left(request, tmp_path, database):
    more = {}
    if database == "postgresql":
        server = request.getfixturevalue("url")
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute("CREATE DATABASE audited")
        more["TALLYBOARD_DATABASE_URL"] = f"{server.rpartition('/')[0]}/audited"
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "audit_race.py")],
        env=os.environ | {"TALLYBOARD_DATA_DIR": str(tmp_path)} | more,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["entries"], told["last"], told["fault"]) == (320, 320, "")
    assert all(told["refused"]), told["refused"]
    assert told["active"] == [1] * 5
