"""The whole product with the tills: what was sold reaches page, archive, view and mail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from config.mailbox import Mailbox
from support.run.stack import Stack, wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.extensive(
        guard="tests/web/retail/test_invoices.py::test_the_page_shows_todays_sales"
    ),
]

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

    def mailed(to: bytes, *subjects: bytes) -> bool:
        mails = [box.read(number) or b"" for number in box.numbers()]
        return any(to in mail and any(each in mail for each in subjects) for mail in mails)

    earned = b"points earned", b"messages in one"
    wait_until(lambda: mailed(b"To: customers@demo.invalid", *earned), 60, "no notice of points")
    wait_until(lambda: mailed(b"To: customer-", b"points"), 180, "nobody's own address was told")
    wait_until(lambda: client.get("invoices/today")["total"]["returns"], 60, "nothing was returned")
    rows = client.get("views/customer-points?limit=1000")["items"]
    assert {tuple(sorted(row["value"])) for row in rows} == {("at", "customer", "points", "tier")}

    def archived() -> bool:
        done = stack.manage("invoice-trends", "--json", timeout_s=300)
        return done.returncode == 0 and json.loads(done.stdout)["total"]["invoices"] > 0

    wait_until(archived, 120, "the archive stays empty")
