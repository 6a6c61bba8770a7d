"""`python -m ops.control status`, or `start NAME` or `stop NAME`: one process of a running copy."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from config import leadership
from config.entry import enter
from config.jobs import MAIN, words_of
from config.settings import Settings
from ops.supervise import NotRunning, Supervisor

RUNS = {"STARTING", "RUNNING", "BACKOFF"}
"""The supervisor's states of a process that it keeps running."""


def main(arguments: list[str]) -> str | None:
    """Do what the arguments say. Return a message on failure."""
    settings = enter()
    supervisor = Supervisor(settings.data_dir)
    try:
        match arguments:
            case ["status"]:
                _print_status(supervisor)
                print(*standby_lines(settings), sep="\n", end="")
            case ["start" | "stop" as action, name]:
                _change(supervisor, action, name)
            case _:
                return __doc__
    except NotRunning:
        return "Tallyboard is not running: start it with make run."
    except KeyError as unknown:
        return f"No process is called {unknown}; there are {', '.join(supervisor.statuses())}."
    return None


def _change(supervisor: Supervisor, action: str, name: str) -> None:
    """Start or stop a process, and print what was done. Raises NotRunning, KeyError."""
    runs = supervisor.statuses()[name].state in RUNS
    if action == "stop":
        supervisor.stop(name)
        print(f"{name} {'is stopped' if runs else 'was stopped already'}.")
    else:
        supervisor.start(name)
        print(f"{name} {'runs already' if runs else 'is started'}.")


def _print_status(supervisor: Supervisor) -> None:
    for name, status in sorted(supervisor.statuses().items()):
        print(f"{name:14} {status.state:10} {status.pid or ''}")


def standby_lines(settings: Settings) -> list[str]:
    """Return for each job which process leads it, and since when another is ready to take over.

    Return nothing without a standby.
    """
    if not settings.standby:
        return []
    lines = [_standby_line(settings.for_job(job)) for job in (MAIN, *settings.jobs)]
    return [*filter(None, lines), ""] if any(lines) else []


def _standby_line(settings: Settings) -> str:
    """Return who leads the job of these settings, empty where nobody has led it."""
    leader = leadership.read(leadership.file_of(settings.checkpoint_dir))
    if not leader.role:
        return ""
    since = datetime.fromtimestamp(leader.standby / 1000, UTC).astimezone()
    ready = f"a standby is ready since {since:%H:%M:%S}" if leader.standby else "no standby yet"
    return f"{leader.role} leads {words_of(settings.job)} (process {leader.driver}); {ready}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
