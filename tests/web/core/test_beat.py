"""The schedule: of two Beats one sends, each task once, by what the last one has left."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from config.pulse import age_s
from dashboard.celery import app
from dashboard.core.common.queues import WAIT_S, FileLock, OneScheduler

pytestmark = pytest.mark.django_db

MOST = 50
"""Turns within which a scheduler has sent all that is due."""


@pytest.fixture(autouse=True)
def own_directory(settings: Any, tmp_path: Path) -> Path:
    """A data directory of the test's own."""
    settings.TALLYBOARD = settings.TALLYBOARD.model_copy(update={"data_dir": tmp_path})
    return tmp_path


class Scheduler(OneScheduler):
    """One that notes what it sends."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        super().__init__(app)

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        self.sent.append(entry.name)

    @property
    def producer(self) -> None:
        return None

    def turn(self) -> list[str]:
        """Send what is due, and return it."""
        self.sent.clear()
        for _ in range(MOST):
            if self.tick():
                break
        return list(self.sent)


def due(*names: str) -> None:
    """Have tasks be due by the database, as if a Beat had sent them a day ago; no others are."""
    PeriodicTask.objects.update(last_run_at=timezone.now())
    PeriodicTask.objects.filter(name__in=names).update(last_run_at=timezone.now() - timedelta(1))


def test_one_of_two_sends(own_directory: Path):
    first, second = Scheduler(), Scheduler()
    due("retention", "snapshot")
    assert sorted(first.turn()) == ["retention", "snapshot"]
    assert second.turn() == []
    assert second.tick() == WAIT_S
    age = age_s(own_directory, "beat")
    assert age is not None
    assert age < 5


def test_who_takes_over_goes_by_what_the_last_one_has_left():
    first, second = Scheduler(), Scheduler()
    due("retention")
    assert first.turn() == ["retention"]
    assert second.turn() == []
    due("snapshot")  # retention was sent since the second one has read the schedule
    first.close()
    assert isinstance(first._lock, FileLock)
    first._lock._file.close()
    assert second.turn() == ["snapshot"]


def test_what_was_sent_before_the_lock_was_lost_is_not_written_over(
    own_directory: Path, monkeypatch: pytest.MonkeyPatch
):
    scheduler = Scheduler()
    due("retention")
    assert scheduler.turn() == ["retention"]
    monkeypatch.setattr(FileLock, "held", lambda _self: False)
    assert scheduler.tick() == WAIT_S
    by_another = timezone.now() + timedelta(hours=1)
    PeriodicTask.objects.filter(name="retention").update(last_run_at=by_another)
    scheduler.close()
    assert PeriodicTask.objects.get(name="retention").last_run_at == by_another


def test_a_lock_is_freed_with_its_file(tmp_path: Path):
    one, other = FileLock(tmp_path / "new" / "lock"), FileLock(tmp_path / "new" / "lock")
    assert one.held()
    assert one.held()
    assert not other.held()
    one._file.close()
    assert other.held()
    other._file.close()
