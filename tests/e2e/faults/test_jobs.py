"""The product with two jobs: each is a process, and one that is down shows on its boards alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from ops.supervise import Supervisor
from support.run.stack import Stack, wait_until

pytestmark = [
    pytest.mark.timeout(480),
    pytest.mark.slow,
    pytest.mark.extensive(
        guard="tests/unit/core/test_freshness.py::"
        "test_a_job_that_is_silent_leaves_the_boards_of_the_others"
    ),
]

PARTS = ("broker", "job", "job-shop", "materialiser", "web", "simulator")


@pytest.fixture
def stack(tmp_path: Path, jars_dir: Path) -> Iterator[Stack]:
    own = Stack(
        tmp_path / "data",
        only=PARTS,
        jars_dir=jars_dir,
        job_scenarios="shop: orders",
        spark_memory="700m",
    )
    own.start(240)
    yield own
    own.stop()


def missing(stack: Stack) -> list[str]:
    """What keeps the boards from being fresh."""
    missing_parts: list[str] = httpx.get(f"{stack.url}/readyz", timeout=30).json()["missing"]
    return missing_parts


def queries(client: httpx.Client) -> dict[str, Any]:
    return {each["query"]: each for each in client.get("/api/v1/job").json()["queries"]}


def test_a_job_that_is_down_is_named_and_leaves_the_others_boards(stack: Stack) -> None:
    assert missing(stack) == []
    with stack.logged_in("admin") as client:
        queries_by_name = queries(client)
        assert {name: each["job"] for name, each in queries_by_name.items()} == {
            "kernel": "",
            "shop-kernel": "shop",
        }
        Supervisor(stack.data_dir).stop("job-shop")
        wait_until(lambda: missing(stack), 60, "nobody misses the job")
        wait_until(
            lambda: "The job shop has not answered" in client.get("/job/").text,
            30,
            "the job's page does not name it",
        )
        boards = {name: client.get(f"/s/{name}/").text for name in ("orders", "attack")}
        mentions = {
            name: page.count("The job shop has not answered") for name, page in boards.items()
        }
        assert 0 < mentions["attack"] < mentions["orders"], "there the tab alone says so"
        missing_parts = missing(stack)
        assert missing_parts
        assert all(
            "orders/" in each and "(job shop)" in each for each in missing_parts if "bucket" in each
        )
    Supervisor(stack.data_dir).start("job-shop")
    wait_until(lambda: not missing(stack), 90, f"it does not come back: {missing(stack)}")
    assert stack.manage("reconcile").returncode == 0
    assert stack.stop() < 15
    assert stack.leftovers() == []
