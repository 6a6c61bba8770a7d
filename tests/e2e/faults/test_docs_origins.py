"""What docs/origins.md says can be seen is asked of a running product with everything on."""

from __future__ import annotations

import json
import math
import os
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from support.kafka.store_servers import REDIS
from support.run.origins import ROOT, rows
from support.run.stack import Stack, free_ports, wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_500)]

LONGEST_S = 240
PRINTS_S = 3
"""How long a command that goes on may print before it is interrupted."""
SEEN = list(dict.fromkeys(shown for row in rows() for shown in row.see))
PAGES = [shown for shown in SEEN if shown.startswith(("/", "GET "))]
COMMANDS = [shown for shown in SEEN if shown.startswith("manage.py")]
TARGETS = [shown for shown in SEEN if shown.startswith("make ")]

NEEDED = ("topics create logs --partitions 2", "topics create userLogins --partitions 4")
"""What the commands are about."""
REFUSED = {"manage.py topics create userLogins --partitions 4 --replication 2": "broker"}
"""Commands that are to fail, as long as there are no such topics, with a word of why."""
SHORT = {
    "make bench-emission": "--seconds 2",
    "make bench-recovery": "--engines kernel --assets 1000 --kills 1",
    "make bench-sessions": "--timeout 6",
    "make bench-stores": "--orders 50000",
}
"""With what a bench takes no longer than a test may."""
STARTED = "make run"
"""This one is what the whole module does: `Stack` runs what it runs."""


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory, jars_dir: Path) -> Iterator[Stack]:
    """The product with every pipeline, two store servers and a cache."""
    folder = tmp_path_factory.mktemp("everything")
    (port,) = free_ports(1)
    assert REDIS, "Redis is not installed: no redis-server on the PATH"
    redis = subprocess.Popen(
        [REDIS, "--port", str(port), "--dir", str(folder), "--save", ""], stdout=subprocess.DEVNULL
    )
    stack = Stack(
        folder / "data",
        jars_dir=jars_dir,
        pipelines="all",
        stores=2,
        redis_url=f"redis://127.0.0.1:{port}/0",
    )
    try:
        yield stack.start(timeout_s=300)
    finally:
        stack.stop()
        redis.terminate()
        redis.wait()


@pytest.fixture(scope="module")
def running(product: Stack) -> list[str]:
    """The pipelines, once each has reported that it runs."""
    listed = product.manage("pipeline", "list").stdout.splitlines()
    names = [line.split()[0] for line in listed if " off " not in line]

    def states() -> dict[str, str]:
        lines = product.manage("pipeline", "list").stdout.splitlines()
        return {line.split()[0]: line.split()[1] for line in lines}

    wait_until(
        lambda: all(states()[name] == "running" for name in names),
        LONGEST_S,
        "not every pipeline runs",
    )
    return names


@pytest.fixture(scope="module")
def admin(product: Stack) -> Iterator[httpx.Client]:
    """A client that is logged in as an admin."""
    with product.logged_in("admin") as client:
        yield client


@pytest.fixture(scope="module")
def refusals(product: Stack) -> dict[str, subprocess.CompletedProcess[str]]:
    """How the commands ended that are to fail, run before there are topics."""
    return {shown: product.manage(*shlex.split(shown)[1:]) for shown in REFUSED}


@pytest.fixture(scope="module")
def topics(product: Stack, refusals: dict[str, subprocess.CompletedProcess[str]]) -> None:
    """The topics of the commands, with some records."""
    for command in NEEDED:
        assert product.manage(*command.split()).returncode == 0
    assert product.manage("produce", "logs", "--count", "20", "--sync").returncode == 0


def test_every_pipeline_runs(running: list[str]) -> None:
    assert len(running) >= 5


@pytest.mark.parametrize("shown", PAGES)
def test_a_page_answers(shown: str, running: list[str], admin: httpx.Client) -> None:
    path = shown.removeprefix("GET ")
    wait_until(lambda: admin.get(path).status_code == 200, 60, f"{path}: {admin.get(path)}")


@pytest.mark.parametrize("shown", REFUSED)
def test_a_command_that_is_refused_says_why(
    shown: str, refusals: dict[str, subprocess.CompletedProcess[str]]
) -> None:
    assert refusals[shown].returncode == 1
    assert REFUSED[shown] in refusals[shown].stderr


@pytest.mark.parametrize("shown", [each for each in COMMANDS if each not in REFUSED])
def test_a_command_does_what_it_says(
    shown: str, product: Stack, running: list[str], topics: None, tmp_path: Path
) -> None:
    words = shlex.split(shown)[1:]
    if words[:2] == ["pipeline", "new"]:
        words += ["--root", str(tmp_path)]
    status, output = until_it_prints(words, product)
    assert output.strip(), shown
    assert status == 0, output


def until_it_prints(words: list[str], product: Stack) -> tuple[int, str]:
    """Run a command of `manage.py`; one that goes on is interrupted soon after its first text."""
    process = subprocess.Popen(
        [sys.executable, "-u", "manage.py", *words],
        cwd=ROOT,
        env=product.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout
    goes_on = words[0] == "consume" or "--follow" in words
    deadline, interrupt_at, output = time.monotonic() + LONGEST_S, math.inf, b""
    while (now := time.monotonic()) < deadline:
        if now >= interrupt_at:
            process.send_signal(signal.SIGINT)
            goes_on, interrupt_at = False, math.inf
        if select.select([process.stdout], [], [], 1)[0]:
            text = os.read(process.stdout.fileno(), 65_536)
            output += text
            if not text:
                break
        if goes_on and output.strip() and interrupt_at == math.inf:
            interrupt_at = time.monotonic() + PRINTS_S
    else:
        process.kill()
    return process.wait(30), output.decode(errors="replace")


@pytest.mark.parametrize("shown", [each for each in TARGETS if each != STARTED])
def test_a_target_of_make_does_what_it_says(shown: str, product: Stack, tmp_path: Path) -> None:
    words = shlex.split(shown)
    if shown in SHORT:
        words += [f"OPTIONS={SHORT[shown]} --results {tmp_path}"]
    done = subprocess.run(
        words, cwd=ROOT, env=product.environment(), capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    if shown in SHORT:
        results = list(tmp_path.glob("*.json"))
        assert results
        assert all(json.loads(file.read_text()) for file in results)


def test_each_process_that_is_killed_comes_back(product: Stack, running: list[str]) -> None:
    """Those that the other pages need are killed in test_kill_each.py."""
    for name in ("pipelines", "store-1", "store-2"):
        before = product.kill(name)
        wait_until(lambda: product.pid(name) not in (0, before), 60, f"{name} is not back")  # noqa: B023
    listed = product.manage("pipeline", "list").stdout
    assert all(name in listed for name in running)
