"""Asks a broker again and again, as a process that lives long does:
`python kafka_asker.py BOOTSTRAP TOPIC OPTIONS`, the last as JSON.

It prints, for each answer, what was asked for and the time (Unix s): `members 1790000000.1`.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT)]

from bus.base import BusError  # noqa: E402
from bus.kafka import KafkaBus  # noqa: E402
from ops.child import die_with_parent  # noqa: E402

PAUSE_S = 0.2


def ask(what: str, request: Callable[[], object]) -> None:
    """Ask for something for good."""
    while True:
        try:
            request()
            print(what, time.time(), flush=True)
        except BusError:
            pass
        time.sleep(PAUSE_S)


def main(bootstrap: str, topic: str, options: str) -> None:
    """Ask for members and offsets until killed."""
    die_with_parent()
    bus = KafkaBus({"bootstrap.servers": bootstrap, **json.loads(options)})
    requests: dict[str, Callable[[], object]] = {
        "members": lambda: bus.members("nobody", 2),
        "offsets": lambda: bus.offsets([topic]),
    }
    for what, request in [*requests.items(), ("members", requests["members"])]:
        threading.Thread(target=ask, args=(what, request), daemon=True).start()
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
