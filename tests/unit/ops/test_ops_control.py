"""`make target-stop` and its like: they do it, and say what was done."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops import control
from ops.supervise import NotRunning, ProcessStatus


class Supervised:
    """A supervisor of one process, `target`, in a state that the test sets."""

    state = "RUNNING"

    def __init__(self, _data_dir: Path) -> None:
        pass

    def statuses(self) -> dict[str, ProcessStatus]:
        status = ProcessStatus("target", "tallyboard:target", self.state, 7, 0, 0)
        return {"target": status}

    def start(self, _name: str) -> None:
        type(self).state = "RUNNING"

    def stop(self, _name: str) -> None:
        type(self).state = "STOPPED"


@pytest.fixture
def supervised(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> type[Supervised]:
    monkeypatch.setenv("TALLYBOARD_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(control, "Supervisor", Supervised)
    monkeypatch.setattr(Supervised, "state", "RUNNING")
    return Supervised


@pytest.mark.parametrize(
    ("before", "action", "said", "after"),
    [
        ("RUNNING", "stop", "target is stopped.", "STOPPED"),
        ("STOPPED", "stop", "target was stopped already.", "STOPPED"),
        ("STOPPED", "start", "target is started.", "RUNNING"),
        ("FATAL", "start", "target is started.", "RUNNING"),
        ("RUNNING", "start", "target runs already.", "RUNNING"),
    ],
)
def test_a_change_is_told(
    supervised: type[Supervised],
    capsys: pytest.CaptureFixture[str],
    before: str,
    action: str,
    said: str,
    after: str,
) -> None:
    supervised.state = before
    assert control.main([action, "target"]) is None
    assert capsys.readouterr().out == f"{said}\n"
    assert supervised.state == after


def test_an_unknown_process_is_told(supervised: type[Supervised]) -> None:
    assert control.main(["stop", "tarqet"]) == "No process is called 'tarqet'; there are target."
    assert supervised.state == "RUNNING"


def test_where_nothing_runs_nothing_is_told_as_done(
    supervised: type[Supervised],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def nobody(_self: Supervised) -> None:
        raise NotRunning

    monkeypatch.setattr(supervised, "statuses", nobody)
    assert control.main(["stop", "target"]) == "Tallyboard is not running: start it with make run."
    assert capsys.readouterr().out == ""
