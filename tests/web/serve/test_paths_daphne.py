"""Asset names in paths, through a real daphne: what was percent-encoded arrives as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from support.run.stack import ROOT, free_port, wait_until

pytestmark = pytest.mark.timeout(180)

NAMES = (
    "10.0.0.0/8",
    "2001:db8::/32",
    "100%",
    "%2F",
    "a b+c",
    "Zürich · 東京",
    "🛰",
    "a.b..c",
    "a/",
    "/a",
    "a//b",
    "a/command/set",
    "x?y#z&w=1;v",
    "'\"<>\\",
)

SETUP = """
import django
django.setup()
from support.web.database import migrate
migrate()
from support.web.web_fixtures import bearer, make_user, show
for name in %r:
    show("attack", name, "clear")
print(bearer(make_user("operator"))["Authorization"])
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A daphne of our own on a database of its own, and a client with a token."""
    data_dir: Path = tmp_path_factory.mktemp("daphne")
    environment = os.environ | {
        "TALLYBOARD_DATA_DIR": str(data_dir),
        "DJANGO_SETTINGS_MODULE": "dashboard.settings",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}",
    }
    made = subprocess.run(
        [sys.executable, "-c", SETUP % (NAMES,)],
        env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    port = free_port()
    with (data_dir / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "daphne", "-p", str(port), "dashboard.asgi:application"],
            env=environment, cwd=ROOT, stdout=log, stderr=log,
        )  # fmt: skip
    client = httpx.Client(
        base_url=f"http://127.0.0.1:{port}",
        headers={"Authorization": made.stdout.split("\n")[-2]},
        timeout=20,
    )

    def answers() -> bool:
        assert process.poll() is None, (data_dir / "log").read_text()
        try:
            return client.get("/healthz").status_code == 200
        except httpx.TransportError:
            return False

    try:
        wait_until(answers, 60, f"daphne does not answer, see {data_dir}/log")
        yield client
    finally:
        client.close()
        process.send_signal(signal.SIGTERM)
        process.wait(10)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.spread(2)
def test_a_name_arrives_as_it_was(server: httpx.Client, name: str):
    response = server.get(f"/api/v1/scenarios/attack/assets/{quote(name, safe='')}")
    assert response.status_code == 200, response.text
    assert response.json()["asset"] == name


def test_another_name_is_another_asset(server: httpx.Client):
    response = server.get("/api/v1/scenarios/attack/assets/10.0.0.0%252F8")
    assert response.status_code == 404
    assert "10.0.0.0%2F8" in response.json()["detail"]
