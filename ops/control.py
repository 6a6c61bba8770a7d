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
        return f"No process is called {unknown}; there are {', '.join(supervisor.seen())}."
    return None


def _print_status(supervisor: Supervisor) -> None:
    for name, seen in sorted(supervisor.seen().items()):
        print(f"{name:14} {seen.state:10} {seen.pid or ''}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
