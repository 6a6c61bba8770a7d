"""The mail as the views of a product reach a thousand: one, whatever is killed or read again."""

from __future__ import annotations

import json

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import DatabaseError
from django.test import Client

from bus.base import TopicSpec
from bus.memory import MemoryBus
from config.settings import DEMO_MAIL
from dashboard.core.states.models import EventCount, SinkOffset
from dashboard.notify.notifications.models import SENT, Channel, Message
from dashboard.retail import ingestion
from dashboard.retail.ingestion import MilestoneReader
from support.web.deliveries import deliver
from support.web.receivers import mail_server
from wire.topics import Topics

pytestmark = pytest.mark.django_db

NOW = 1_795_435_200_000
TOPICS = Topics("t.")


class Log:
    """The topic in memory, and its reader."""

    def __init__(self) -> None:
        self.bus = MemoryBus(lambda: NOW)
        self.bus.ensure_topics([TopicSpec(TOPICS.product_milestones, 1, {})])
        self.restart()

    def restart(self) -> None:
        """Begin with a new reader, as after a kill."""
        self.reader = MilestoneReader(self.bus, TOPICS, lambda: NOW)

    def send(self, value: object) -> None:
        raw = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.bus.producer().send_and_wait(TOPICS.product_milestones, b"k", raw)

    def pass_(self, product: str = "product-7", count: int = 1_000) -> None:
        self.send({"product": product, "count": count, "at": NOW - 1})

    def read(self) -> None:
        while self.reader.step():
            pass


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def channel(monkeypatch: pytest.MonkeyPatch) -> Channel:
    """The channel that the setting names."""
    named = settings.TALLYBOARD.model_copy(update={"views_channel": "Shop"})
    monkeypatch.setattr(settings, "TALLYBOARD", named)
    return Channel.objects.create(
        username="ada", name="Shop", kind="mail", address="a@example.org", changed_at=NOW
    )


def subjects() -> list[str]:
    return list(Message.objects.order_by("subject").values_list("subject", flat=True))


def test_a_milestone_is_told_once_however_often_it_comes(log: Log, channel: Channel) -> None:
    log.pass_()
    log.pass_()
    log.pass_("product-8")
    log.read()
    log.pass_()
    log.read()
    assert subjects() == ["product-7: 1,000 views", "product-8: 1,000 views"]
    message = Message.objects.get(subject__startswith="product-7")
    assert message.text == "product-7 was viewed for the 1,000th time."
    assert message.payload["count"] == 1_000
    assert (message.kind, message.channel, message.recipient) == ("views", channel, "a@example.org")


def test_after_a_kill_in_mid_batch_it_is_told_once(
    log: Log, channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise DatabaseError("it is gone")

    log.pass_()
    with monkeypatch.context() as patch:
        patch.setattr(ingestion, "advance_offsets", broken)
        with pytest.raises(DatabaseError):
            log.read()
    assert subjects() == []
    log.restart()
    log.read()
    log.restart()
    log.read()
    assert len(subjects()) == 1
    assert SinkOffset.objects.get(topic=TOPICS.product_milestones).next_offset == 1


def test_it_is_told_once_where_the_offsets_are_lost(log: Log, channel: Channel) -> None:
    log.pass_()
    log.read()
    SinkOffset.objects.all().delete()
    log.restart()
    log.read()
    assert len(subjects()) == 1


@pytest.mark.parametrize(
    "wrong",
    [b"", b"\xff", b"[]", {"product": "p"}, {"product": "", "count": 1, "at": 1},
     {"product": "p" * 61, "count": 1, "at": 1}, {"product": "p", "count": -1, "at": 1}],
)  # fmt: skip
def test_what_is_no_milestone_is_counted_and_passed_over(
    log: Log, channel: Channel, wrong: object
) -> None:
    log.send(wrong)
    log.pass_()
    log.read()
    assert len(subjects()) == 1
    assert EventCount.objects.get(name="unreadable", topic=TOPICS.product_milestones).n == 1


def test_nobody_is_told_without_a_channel(log: Log, channel: Channel) -> None:
    Channel.objects.update(enabled=False)
    log.pass_()
    log.read()
    assert subjects() == []
    assert SinkOffset.objects.get(topic=TOPICS.product_milestones).next_offset == 1


def test_a_centre_that_names_no_channel_is_told_nothing(log: Log) -> None:
    log.pass_()
    log.read()
    assert subjects() == []


def test_in_the_demo_it_is_a_mail_to_the_catcher(
    log: Log, monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    with mail_server() as server:
        demo = settings.TALLYBOARD.model_copy(
            update={"pipelines": "product-counts", "mail_catcher_port": server.port}
        )
        monkeypatch.setattr(settings, "TALLYBOARD", demo)
        assert demo.views_target == DEMO_MAIL
        call_command("demo_notifications", verbosity=0)
        log.pass_()
        log.read()
        deliver()
        assert Message.objects.get().status == SENT
        assert "1,000 views" in str(server.mails[0]["Subject"])
    assert "views of a product" in client.get("/notifications/messages/").content.decode()
