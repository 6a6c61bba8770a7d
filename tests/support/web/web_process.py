"""`manage.py serve` as a process of its own, and what its sockets say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from config.settings import PREFIX
from support.run.stack import ROOT, free_port, wait_until

LOGIN = """
import django
django.setup()
from support.web.database import migrate
migrate()
from django.conf import settings
from django.test import Client
from support.web.web_fixtures import make_user, show
for number in range(400):
    show("connectivity", f"{number:03d}-" + "long-" * 40, "up")
browser = Client()
browser.force_login(make_user("manager"))
name = settings.SESSION_COOKIE_NAME
print(name + "=" + browser.cookies[name].value)
browser = Client()
browser.force_login(make_user("operator"))
print(name + "=" + browser.cookies[name].value)
"""


class Web:
    """The served board of a data directory of its own, and of the topics with this prefix.

    `.cookie` is a manager's, `.another` an operator's; `.environment` fits any other process
    of the same board.
    """

    def __init__(self, data_dir: Path, bootstrap: str, prefix: str, **changes: object) -> None:
        """changes: settings by field name."""
        self.port, self.log = free_port(), data_dir / "web.log"
        self.environment = {
            **{name: text for name, text in os.environ.items() if not name.startswith(PREFIX)},
            f"{PREFIX}DATA_DIR": str(data_dir),
            f"{PREFIX}HTTP_PORT": str(self.port),
            f"{PREFIX}KAFKA_BOOTSTRAP": bootstrap,
            f"{PREFIX}TOPIC_PREFIX": prefix,
            **{f"{PREFIX}{name.upper()}": str(value) for name, value in changes.items()},
            "DJANGO_SETTINGS_MODULE": "dashboard.settings",
            "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}",
        }
        made = subprocess.run(
            [sys.executable, "-c", LOGIN], env=self.environment, cwd=ROOT,
            capture_output=True, text=True, timeout=90, check=False,
        )  # fmt: skip
        assert made.returncode == 0, made.stderr
        self.cookie, self.another = made.stdout.split()[-2:]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self.command, env=self.environment, cwd=ROOT, stdout=log, stderr=log
            )
        wait_until(self.answers, 60, f"no answer, see {self.log}")

    @property
    def command(self) -> list[str]:
        return [sys.executable, "manage.py", "serve"]

    def answers(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/healthz", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def socket(self, scenario: str = "attack", cookie: str = "") -> ClientConnection:
        return connect(
            f"ws://127.0.0.1:{self.port}/ws/board/{scenario}/",
            origin=Origin(f"http://127.0.0.1:{self.port}"),
            additional_headers={"Cookie": cookie or self.cookie},
        )


def until(socket: ClientConnection, kind: str) -> dict:
    """The next message of a kind, what has a number acknowledged."""
    while True:
        message: dict = json.loads(socket.recv(timeout=30))
        if "seq" in message:
            socket.send(json.dumps({"type": "ack", "seq": message["seq"]}))
        if message["type"] == kind:
            return message
