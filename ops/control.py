"""`python -m ops.control status`, or `start NAME` or `stop NAME`: one process of a running copy."""

from __future__ import annotations

import sys

from config.entry import enter
from ops.supervise import NotRunning, Supervisor


def main(arguments: list[str]) -> str | None:
    """Do what the arguments say; returns a message when it cannot be done."""
    supervisor = Supervisor(enter().data_dir)
    try:
        match arguments:
            case ["status"]:
                _print_status(supervisor)
            case ["start", name]:
                supervisor.start(name)
            case ["stop", name]:
                supervisor.stop(name)
            case _:
                return __doc__
    except NotRunning:
        return "Tallyboard is not running: start it with make run."
    except KeyError as unknown:
        return f"No process is called {unknown}; there are {', '.join(supervisor.statuses())}."
    return None


def _print_status(supervisor: Supervisor) -> None:
    for name, status in sorted(supervisor.statuses().items()):
        print(f"{name:14} {status.state:10} {status.pid or ''}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
