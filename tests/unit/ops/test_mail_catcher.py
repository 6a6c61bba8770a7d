"""The mail catcher: a real process takes real mails and keeps the newest."""

from __future__ import annotations

import os
import signal
import smtplib
import subprocess
import sys
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path

import pytest

from config.mailbox import Mailbox, arrived_at
from config.settings import PREFIX, Settings
from ops.mail_catcher import MOST_BYTES
from ops.processes import processes
from ops.readiness import listens
from ops.supervise import ROOT
from support.run.stack import free_port, wait_until


def test_the_newest_are_kept(tmp_path: Path):
    box = Mailbox(tmp_path / "mail", at_most=3)
    assert box.numbers() == []
    kept = [box.keep(b"%d" % number) for number in range(5)]
    assert box.numbers() == kept[:1:-1]
    assert box.read(kept[4]) == b"4"
    assert box.read(kept[0]) is None
    assert kept == sorted(set(kept))


def test_a_number_says_when_it_came():
    assert arrived_at(1_700_000_000_123_456) == 1_700_000_000_123


def test_what_is_no_mail_is_left_alone(tmp_path: Path):
    (tmp_path / "12.345").write_text("a draft")
    (tmp_path / "notes.eml").write_text("somebody's")
    assert Mailbox(tmp_path).numbers() == []


@pytest.mark.parametrize(
    ("settings", "server"),
    [
        (Settings(http_port=8000), ("127.0.0.1", 8002)),
        (Settings(mail_catcher_port=2525), ("127.0.0.1", 2525)),
        (Settings(smtp_host="mail.example.org", smtp_port=25), ("mail.example.org", 25)),
        (Settings(demo=False), None),
        (Settings(kafka_bootstrap="k:9092"), None),
    ],
)
def test_it_runs_where_the_demo_has_no_mail_server(settings: Settings, server: object):
    assert settings.mail_server == server
    runs = "mail" in {process.name for process in processes(settings)}
    assert runs == settings.catches_mail == bool(server and not settings.smtp_host)


@pytest.fixture
def catcher(tmp_path: Path) -> Iterator[int]:
    """The port of a running catcher."""
    port = free_port()
    given = {"DATA_DIR": str(tmp_path), "MAIL_CATCHER_PORT": str(port)}
    environment = os.environ | {PREFIX + name: value for name, value in given.items()}
    command = [sys.executable, "-m", "ops.mail_catcher"]
    with subprocess.Popen(command, cwd=ROOT, env=environment) as process:
        wait_until(lambda: listens(f"127.0.0.1:{port}"), 20, "the catcher does not listen")
        yield port
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 0


def test_a_mail_is_kept_with_its_envelope(catcher: int, tmp_path: Path):
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = "Angriff auf Köln", "a@example.org", "b@example.org"
    mail.set_content("under attack")
    with smtplib.SMTP("127.0.0.1", catcher, timeout=10) as client:
        client.send_message(mail, to_addrs=["b@example.org", "blind@example.org"])
        with pytest.raises(smtplib.SMTPResponseException) as refused:
            client.sendmail("a@example.org", ["b@example.org"], b"x" * (MOST_BYTES + 1))
    assert refused.value.smtp_code == 552
    box = Mailbox(tmp_path / "mail")
    [number] = box.numbers()
    lines = (box.read(number) or b"").decode().splitlines()
    assert lines[:3] == [
        "X-Envelope-From: a@example.org",
        "X-Envelope-To: b@example.org,",
        " blind@example.org",
    ]
    assert "under attack" in lines
