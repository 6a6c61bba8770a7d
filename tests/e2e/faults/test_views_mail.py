"""The mail as the views of a product reach a thousand: one, whatever is killed meanwhile."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from email import message_from_bytes
from pathlib import Path

import pytest

from bus.base import ConsumerRecord, TopicSpec
from bus.kafka import KafkaBus
from config.mailbox import Mailbox
from support.run.stack import Stack, wait_until
from wire.topics import Topics

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(480),
    pytest.mark.extensive(
        guard="tests/web/notify/test_notification_delivery.py::test_one_key_is_one_message"
    ),
]

NEEDED = ("broker", "pipelines", "materialiser", "worker", "notifier", "beat", "mail")
PRODUCT = "product-7"
NOW_MS = 1_790_000_000_000
LONGEST_S = 120


class Shop:
    """Views of one product that are sent, and what the product makes of them."""

    def __init__(self, stack: Stack) -> None:
        self.bus, self.topics = KafkaBus(stack.settings.kafka_options()), Topics()
        self._mailbox = Mailbox(stack.settings.mail_dir)
        self._database = stack.data_dir / "tallyboard.sqlite3"
        self.bus.ensure_topics([TopicSpec(*self.topics.views_of_products())])
        self._producer, self._sent = self.bus.producer(), 0

    def view(self, times: int) -> None:
        """Send so many views, and wait until they are in the log."""
        for _ in range(times):
            value = json.dumps({"product": PRODUCT, "at": NOW_MS + self._sent}).encode()
            self._producer.send(self.topics.product_views, PRODUCT.encode(), value)
            self._sent += 1
        assert self._producer.flush(20) == 0

    def wait_counted(self) -> None:
        """Wait until the newest count is that of all views."""
        wanted = {"product": PRODUCT, "count": self._sent, "at": NOW_MS + self._sent - 1}
        topic = self.topics.product_counts
        wait_until(
            lambda: json.loads((self._log(topic) or [b"{}"])[-1]) == wanted,
            LONGEST_S,
            f"{self._sent} views are not counted",
        )

    def _log(self, topic: str) -> list[bytes]:
        edges = {place: begin for place, (begin, _) in self.bus.offsets([topic]).items()}
        reader = self.bus.reader(edges)
        log: list[ConsumerRecord] = []
        while edges and not reader.at_end():
            log += reader.poll(0.5, 10_000)
        reader.close()
        return [message.value or b"" for message in log]

    def mails(self) -> list[str]:
        """The subjects of the mails that were caught."""
        caught = [self._mailbox.read(number) or b"" for number in self._mailbox.numbers()]
        return [message_from_bytes(mail)["Subject"] for mail in caught]

    def wait_read(self) -> None:
        """Wait until the database has all that the topic of milestones holds."""
        ends = self.bus.offsets([self.topics.product_milestones])
        wait_until(
            lambda: (
                self._rows("select next_offset from states_sinkoffset where topic = ?")
                == [(end,) for _, end in ends.values()]
            ),
            LONGEST_S,
            "the milestones are not read",
        )

    def _rows(self, query: str) -> list[tuple[int]]:
        with closing(sqlite3.connect(self._database, timeout=30)) as database:
            return database.execute(query, (self.topics.product_milestones,)).fetchall()


@pytest.fixture
def stack(tmp_path: Path, jars_dir: Path) -> Iterator[Stack]:
    """What counts views and tells of them; no visitors."""
    own = Stack(tmp_path / "data", only=NEEDED, jars_dir=jars_dir, pipelines="product-counts")
    own.start(180)
    yield own
    own.stop()


def test_there_is_one_mail_whatever_is_killed(stack: Stack) -> None:
    shop = Shop(stack)
    shop.view(990)
    shop.wait_counted()
    assert shop.mails() == []
    shop.view(20)
    stack.kill("pipelines")
    stack.kill("materialiser")
    wait_until(shop.mails, LONGEST_S, "there is no mail")
    for name in ("pipelines", "materialiser", "notifier"):
        stack.kill(name)
    shop.view(300)
    shop.wait_counted()
    shop.wait_read()
    assert shop.mails() == [f"{PRODUCT}: 1,000 views"]
    with closing(sqlite3.connect(stack.data_dir / "tallyboard.sqlite3", timeout=30)) as database:
        query = "select status from notifications_message where kind = 'views'"
        assert database.execute(query).fetchall() == [("sent",)]
