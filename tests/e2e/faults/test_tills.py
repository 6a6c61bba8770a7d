"""The whole product with the tills: what was sold reaches page, archive, view and mail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from config.mailbox import Mailbox
from stack import Stack, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

PROCESSES = (
    "beat", "broker", "mail", "materialiser", "notifier", "pipelines", "tills", "web", "worker",
)  # fmt: skip
PIPELINES = "invoices,loyalty,invoice-lines,invoice-archive"


@pytest.fixture
def stack(tmp_path: Path, jars_dir: Path) -> Iterator[Stack]:
    """The product without its job: nothing here is on a board."""
    made = Stack(tmp_path / "data", only=PROCESSES, jars_dir=jars_dir, pipelines=PIPELINES)
    made.start(180, wait=False)
    yield made
    made.stop()


class Client:
    """REST as an operator."""

    def __init__(self, stack: Stack) -> None:
        self._stack, self._token = stack, ""

    def get(self, path: str) -> Any:
        """Return an answer, None while there is none."""
        if not self._token:
            done = self._stack.manage("token", "operator")
            self._token = done.stdout.strip().splitlines()[-1] if not done.returncode else ""
        headers = {"Authorization": f"Bearer {self._token}"}
        try:
            answer = httpx.get(f"{self._stack.url}/api/v1/{path}", headers=headers, timeout=10)
        except httpx.TransportError:
            return None
        return answer.json() if answer.status_code == 200 else None


def test_what_is_sold_reaches_page_archive_view_and_mail(stack: Stack) -> None:
    client = Client(stack)

    def sold() -> bool:
        today = client.get("invoices/today")
        return bool(today and today["total"]["invoices"] > 20 and today["points"])

    wait_until(sold, 240, f"nothing is sold, see {stack.data_dir}/logs")
    wait_until(lambda: client.get("views/prices?limit=100"), 30, "the view of prices is not ready")
    prices = client.get("views/prices?limit=100")["items"]
    assert len(prices) == 40
    assert all(set(row["value"]) == {"price"} for row in prices)
    box = Mailbox(stack.settings.mail_dir)
    wait_until(box.numbers, 60, "no notice of points came")
    mail = box.read(max(box.numbers()))
    assert mail is not None
    assert b"points earned" in mail or b"messages in one" in mail
    assert b"customers@demo.invalid" in mail

    def archived() -> bool:
        done = stack.manage("invoice-trends", "--json")
        return done.returncode == 0 and json.loads(done.stdout)["total"]["invoices"] > 0

    wait_until(archived, 120, "the archive stays empty")
