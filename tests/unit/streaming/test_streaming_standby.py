"""When a standby warms up, what it rehearses with, and what is told of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from bus.base import BusError
from config import leadership as records
from config.leadership import Leader
from config.settings import Settings
from ops.control import standby_lines
from streaming.job import leader_lock
from streaming.job.leader_lock import await_turn
from streaming.job.warm_up import first_rules, link
from streaming.state.buckets import BucketId
from streaming.state.checkpoint import positions
from streaming.state.storage import LocalPath
from support.run.stack import wait_until
from wire.topics import Topics


class PlayedLock:
    """The lock as another process has it, or not."""

    def __init__(self, *, held: bool, ready: bool = False) -> None:
        self.held, self.ready = held, ready

    def stood_by(self) -> bool:
        return self.ready

    def free(self) -> bool:
        return not self.held


class Waiting:
    """A process that waits for its turn, in a thread."""

    def __init__(self, settings: Settings, lock: Any, *, second: bool) -> None:
        self.stop, self.beats, self.takeovers = threading.Event(), 0, list[bool]()
        run: Callable[[], None] = lambda: self.takeovers.append(  # noqa: E731
            await_turn(settings, lock, self.stop, self._beat, second=second)
        )
        self.thread = threading.Thread(target=run)
        self.thread.start()

    def _beat(self) -> None:
        self.beats += 1

    def waits(self) -> bool:
        """Return whether it still waits, after some more looks."""
        seen = self.beats
        wait_until(lambda: self.beats > seen + 3 or self.takeovers, 10, "it does not look")
        return not self.takeovers

    def result(self) -> bool:
        self.thread.join(10)
        return self.takeovers[0]


@pytest.fixture
def settings(tmp_path: LocalPath, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(leader_lock, "LOOK_S", 0.01)
    monkeypatch.setattr(leader_lock, "SETTLE_S", 0.1)
    (tmp_path / "checkpoint").mkdir()
    return Settings(data_dir=tmp_path, standby=True)


def tell(settings: Settings, **about: Any) -> None:
    records.write(records.file_of(settings.checkpoint_dir), Leader(name="one", role="job", **about))


def test_the_first_process_begins_at_once(settings: Settings) -> None:
    assert Waiting(settings, PlayedLock(held=False), second=False).result() is False


def test_the_second_lets_the_first_begin(settings: Settings) -> None:
    lock = PlayedLock(held=False)
    waiting = Waiting(settings, lock, second=True)
    assert waiting.waits()
    lock.held = True
    assert waiting.waits(), "the leader does not run yet"
    tell(settings, running=1)
    assert waiting.result() is True


def test_a_second_one_begins_where_no_first_comes(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader_lock, "FIRST_S", 0.1)
    assert Waiting(settings, PlayedLock(held=False), second=True).result() is False


def test_a_leader_that_ends_before_it_runs_is_replaced_at_once(settings: Settings) -> None:
    lock = PlayedLock(held=True)
    waiting = Waiting(settings, lock, second=True)
    assert waiting.waits()
    lock.held = False
    assert waiting.result() is False


def test_who_was_killed_lets_the_standby_take_over(settings: Settings) -> None:
    lock = PlayedLock(held=False, ready=True)
    waiting = Waiting(settings, lock, second=False)
    assert waiting.waits()
    lock.held, lock.ready = True, False
    tell(settings, running=1)
    assert waiting.result() is True


def test_where_the_standby_dies_as_well_it_begins_at_once(settings: Settings) -> None:
    lock = PlayedLock(held=False, ready=True)
    waiting = Waiting(settings, lock, second=False)
    assert waiting.waits()
    lock.ready = False
    assert waiting.result() is False


def test_a_signal_ends_the_waiting(settings: Settings) -> None:
    waiting = Waiting(settings, PlayedLock(held=True), second=False)
    assert waiting.waits()
    waiting.stop.set()
    assert waiting.result() is False


# ---- the rehearsal ------------------------------------------------------------------------------


def test_a_linked_checkpoint_is_the_leaders_and_takes_no_room(tmp_path: LocalPath) -> None:
    checkpoint = tmp_path / "epoch-1"
    files = {
        "metadata": '{"id":"x"}',
        "commits/0": "v1",
        "commits/1": "v1",
        "offsets/1": 'v1\n{}\n{"sites.reports":{"0":7}}',
        "offsets/2": "v1",
        "state/0/0/2.changelog": "state",
    }
    for name, text in files.items():
        (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
        (checkpoint / name).write_text(text)
    link(checkpoint, tmp_path / "own")
    assert positions(tmp_path / "own") == {("sites.reports", 0): 7}
    for name in files:
        assert (tmp_path / "own" / name).samefile(checkpoint / name)
    (tmp_path / "own" / "commits" / "1").unlink()
    assert (checkpoint / "commits" / "1").exists()


def test_it_rehearses_under_the_first_rules_of_the_log(tmp_path: LocalPath) -> None:
    path = tmp_path / "rules.json"
    with pytest.raises(BusError, match="no rules to rehearse with yet"):
        first_rules(path, Topics("p."))
    path.write_text(json.dumps({"p.sites.reports/1": [[0, "first"], [9, "later"]]}))
    assert first_rules(path, Topics("p.")) == {BucketId("sites", 1): "first"}


# ---- what is told -------------------------------------------------------------------------------


def test_status_says_who_leads(settings: Settings) -> None:
    assert standby_lines(settings) == []
    tell(settings, driver=4711)
    assert standby_lines(settings)[0] == "job leads the job (process 4711); no standby yet"
    tell(settings, driver=4711, standby=1_790_000_000_000)
    assert "; a standby is ready since " in standby_lines(settings)[0]
    assert standby_lines(settings.model_copy(update={"standby": False})) == []
