"""A candidate for leading, as a process without Spark: `python candidate_process.py FOLDER NAME
BOOTSTRAP`.

It prints `leads` once it does, and `lost` when it does no longer.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT)]

from bus.kafka import KafkaBus  # noqa: E402
from config.leadership import Leader, boot_id  # noqa: E402
from ops.child import die_with_parent  # noqa: E402
from streaming.job.leader_lock import LeaderLock  # noqa: E402
from streaming.job.leadership import Leadership  # noqa: E402


def say(word: str) -> None:
    """Print one word, for who started this."""
    print(word, flush=True)


def lost(_why: str) -> None:
    """End as a job would that leads no longer."""
    say("lost")
    os._exit(3)


def lead(leadership: Leadership) -> None:
    """Say so once this process leads."""
    leadership.leads.wait()
    say("leads")


def main() -> None:
    """Be a candidate until the standard input ends."""
    folder, name, bootstrap = sys.argv[1:]
    die_with_parent()
    leadership = Leadership(
        KafkaBus({"bootstrap.servers": bootstrap}),
        (f"{Path(folder).name}.job-leader", f"{Path(folder).name}.job.control"),
        LeaderLock(Path(folder)),
        (Leader(name=name, boot=boot_id(), driver=os.getpid()), Path(folder) / "leader.json"),
        lost,
        time.monotonic,
        lambda: int(time.time() * 1000),
    )
    stop = threading.Event()
    turns = threading.Thread(target=leadership.run, args=(stop,))
    turns.start()
    threading.Thread(target=lead, args=(leadership,), daemon=True).start()
    sys.stdin.read()
    stop.set()
    turns.join()
    leadership.leave()


if __name__ == "__main__":
    main()
