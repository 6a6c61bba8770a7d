"""A real PostgreSQL server for tests, in a directory of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from ops.ports import free_port
from support.run.stack import wait_until

SERVER = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
USER = "postgres"


@contextmanager
def postgresql_server(log_folder: Path) -> Iterator[str]:
    """Run a server. Yields its URL; each test makes a database of its own."""
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
        subprocess.run(_as_user(initdb), check=True, capture_output=True, cwd="/")
        options = ["-D", str(data), "-p", str(port), "-k", str(folder), "-h", "127.0.0.1"]
        with (log_folder / "log").open("wb") as log:
            command = _as_user([str(bin_ / "postgres"), *options])
            server = subprocess.Popen(command, stdout=log, stderr=log, cwd="/")
        ready = [str(bin_ / "pg_isready"), "-h", "127.0.0.1", "-p", str(port), "-U", USER]
        wait_until(lambda: subprocess.call(ready) == 0, 30, "PostgreSQL is not ready")
        yield f"postgres://{USER}@127.0.0.1:{port}/postgres"
    finally:
        if server is not None:
            server.terminate()
            server.wait(20)
        shutil.rmtree(folder, ignore_errors=True)


def _as_user(command: list[str]) -> list[str]:
    """Return the command as a user that PostgreSQL runs under: not as root."""
    return ["runuser", "-u", USER, "--", *command] if os.geteuid() == 0 else command


def empty_database(server: str, name: str) -> str:
    """Create a database of one test's own on the server. Returns its URL."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"{server.rpartition('/')[0]}/{name}"
