"""Notifications by a real worker, killed while it delivers; a mail server that comes back."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ops.ports import free_port
from support.run.stack import Stack, wait_until
from support.web.receivers import mail_server

pytestmark = pytest.mark.extensive(
    guard="tests/web/notify/test_notification_delivery.py::"
    "test_a_receiver_that_is_down_gets_its_messages_once_it_is_up"
)

QUEUE = """
from dashboard.core.common.times import now_ms
from dashboard.notify.notifications.outbox import MessageDraft, Recipient, put
put(Recipient("mail", "soc@example.org"), MessageDraft("test", "{subject}", "text"), now_ms())
"""


@pytest.fixture
def smtp_port() -> int:
    return free_port()


@pytest.fixture
def stack(tmp_path: Path, jars_dir: Path, smtp_port: int) -> Iterator[Stack]:
    """The workers alone, whose mail server is on a port of this machine."""
    mail = {"smtp_host": "127.0.0.1", "smtp_port": smtp_port, "smtp_tls": "none"}
    own = Stack(
        tmp_path / "data",
        only=["worker", "notifier", "beat"],
        jars_dir=jars_dir,
        demo=False,
        **mail,
    )
    own.start(180)
    yield own
    own.stop()


def queue(stack: Stack, subject: str) -> None:
    """Put a mail into the outbox."""
    done = stack.manage("shell", "-c", QUEUE.format(subject=subject))
    assert done.returncode == 0, done.stderr


def status(stack: Stack, subject: str) -> str:
    """The status of a message."""
    with closing(sqlite3.connect(stack.data_dir / "tallyboard.sqlite3", timeout=30)) as database:
        query = "select status from notifications_message where subject = ?"
        [(message_status,)] = database.execute(query, (subject,))
        return str(message_status)


def kill_whole(pid: int) -> None:
    """Kill a worker and the processes in which it carries tasks out, as `kill -9` does."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for each in (pid, *map(int, children)):
        os.kill(each, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_mail_outlives_its_server_and_its_worker(stack: Stack, smtp_port: int) -> None:
    queue(stack, "while the server is away")
    wait_until(
        lambda: status(stack, "while the server is away") == "failed", 60, "it was not tried"
    )
    with mail_server(smtp_port) as server:
        wait_until(lambda: len(server.mails) == 1, 60, "it was not tried again")
        wait_until(lambda: status(stack, "while the server is away") == "sent", 30, "not stored")

        victim = stack.pid("notifier")

        def kill_once() -> None:
            server.on_mail = lambda: None
            kill_whole(victim)

        server.on_mail = kill_once
        queue(stack, "accepted, and never stored")
        wait_until(lambda: len(server.mails) == 2, 60, "it was not sent")
        wait_until(lambda: stack.pid("notifier") != victim, 60, "no worker was started again")
        wait_until(lambda: len(server.mails) == 3, 240, "nobody took the message over")
        wait_until(lambda: status(stack, "accepted, and never stored") == "sent", 30, "not stored")
        _, first, again = server.mails
        assert first["Message-ID"] == again["Message-ID"]
        assert first["Subject"] == again["Subject"] == "accepted, and never stored"
