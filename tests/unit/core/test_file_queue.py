"""The worker's queue of files: whole messages, in order, once; what is left to the schedule."""

from __future__ import annotations

import ast
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import current_app
from django.conf import settings
from kombu import Connection, Exchange, Queue
from kombu.exceptions import KombuError
from kombu.transport import filesystem

from dashboard.core.common import queues
from support.run.stack import ROOT

LARGE = "x" * 200_000
"""Long enough that a message is written for a while."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "celery"


def connect(folder: Path, transport: type = queues.Transport) -> Connection:
    options = {
        "data_folder_in": str(folder / "queue"),
        "data_folder_out": str(folder / "queue"),
        "control_folder": str(folder / "control"),
        "polling_interval": 0.01,
    }
    return Connection("filesystem://", transport=transport, transport_options=options)


@pytest.fixture
def channel(folder: Path) -> Iterator[queues.FolderChannel]:
    with connect(folder) as connection:
        yield connection.default_channel


def test_a_queue_that_nobody_empties_takes_so_many_messages_and_no_more(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    """What waking survives, as below; another queue is not full."""
    from dashboard.watch.bulk.tasks import carry_on

    monkeypatch.setattr(queues, "MOST_WAITING", 2)
    with connect(folder) as connection:
        for queue in ("q", "q", "other"):
            carry_on.apply_async(retry=False, connection=connection, queue=queue)
        with pytest.raises((KombuError, OSError), match="q: 2 messages wait, and no worker takes"):
            carry_on.apply_async(retry=False, connection=connection, queue="q")
        connection.default_channel._get("q")
        carry_on.apply_async(retry=False, connection=connection, queue="q")


def test_a_message_is_read_whole_or_not_at_all(folder: Path):
    """kombu's own transport fails this within the first few messages."""
    failed: list[Exception] = []
    got: list[int] = []
    with connect(folder) as reading, connect(folder) as writing:
        reader, writer = reading.default_channel, writing.default_channel
        sent = threading.Event()

        def read() -> None:
            while not sent.is_set() or reader._size("q"):
                try:
                    got.append(reader._get("q")["n"])
                except queues.Empty:
                    continue
                except Exception as error:  # noqa: BLE001 - told below
                    failed.append(error)

        thread = threading.Thread(target=read)
        thread.start()
        for n in range(200):
            writer._put("q", {"n": n, "text": LARGE})
        sent.set()
        thread.join(30)
    assert failed == []
    assert got == list(range(200))


def test_a_file_that_is_no_message_is_set_aside(channel: queues.FolderChannel):
    channel._put("q", {"n": 1})
    (channel.folder / "00_half.q.msg").write_text('{"n": ')
    (channel.folder / "00_none.q.msg").write_text("")
    assert channel._get("q") == {"n": 1}
    left = sorted(path.name for path in channel.folder.iterdir())
    assert left == ["00_half.q.msg.unreadable", "00_none.q.msg.unreadable"]


def test_queues_keep_apart_and_can_be_emptied(channel: queues.FolderChannel):
    channel._put("q", {"n": 1})
    channel._put("q.other", {"n": 2})
    assert (channel._size("q"), channel._size("q.other")) == (1, 1)
    assert channel._purge("q") == 1
    assert channel._get("q.other") == {"n": 2}
    with pytest.raises(queues.Empty):
        channel._get("q")


def test_all_that_bind_at_once_are_bound(folder: Path):
    """kombu's own transport empties the table of whoever came a moment before."""

    def bind(n: int) -> None:
        with connect(folder) as connection:
            bound = Queue(f"q{n}", Exchange("told", type="fanout"))
            bound(connection.default_channel).declare()

    threads = [threading.Thread(target=bind, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with connect(folder) as connection:
        default_channel = connection.default_channel
        assert {row.queue for row in default_channel.get_table("told")} == {
            f"q{n}" for n in range(16)
        }
        default_channel.queue_delete("q3")
        Queue("q3", Exchange("told", type="fanout"))(default_channel).declare()
        default_channel._delete("q3", "told", "", "")
        assert "q3" not in {row.queue for row in default_channel.get_table("told")}


def test_a_message_that_cannot_be_written_is_an_error_that_waking_survives(folder: Path):
    """`resumable` expects these; its file would have a name of more than 255."""
    from dashboard.watch.bulk.tasks import carry_on

    with connect(folder) as connection, pytest.raises((KombuError, OSError)):
        carry_on.apply_async(retry=False, connection=connection, queue="q" * 200)
    assert list((folder / "queue").iterdir()) == []


def test_the_product_uses_it():
    assert settings.CELERY_BROKER_TRANSPORT == "dashboard.core.common.queues:Transport"
    with current_app._get_current_object().connection() as connection:
        assert isinstance(connection.transport, filesystem.Transport)


def test_what_is_asked_for_out_of_turn_is_asked_for_within_ten_seconds_anyway():
    """A killed worker loses what it had taken: so nothing may be asked for in this way alone."""
    scheduled = {
        entry["task"]
        for entry in settings.CELERY_BEAT_SCHEDULE.values()
        if float(str(entry["schedule"])) <= 10
    }
    woken = set()
    for path in (ROOT / "dashboard").rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call):
                name = getattr(call.func, "attr", getattr(call.func, "id", ""))
                assert name not in ("delay", "send_task"), (
                    f"{path}: use dashboard.core.common.resumable.start_task"
                )
                assert name != "apply_async" or path.name == "resumable.py", (
                    f"{path}: use start_task"
                )
                if name == "start_task" and call.args:
                    package = ".".join(path.relative_to(ROOT).parent.parts)
                    woken.add(f"{package}.tasks.{ast.unparse(call.args[0])}")
    assert woken
    assert woken <= scheduled
