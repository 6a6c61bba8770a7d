"""Before a standby warms up: wait until the machine is free for it, or it is needed at once.

It imports little, so that a process which waits beside a leader that has just begun costs nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from config import leadership as records
from config.settings import Settings
from streaming.leader_lock import LeaderLock

LOOK_S = 0.1
# How long a leader has the machine for itself once its queries run.
SETTLE_S = 5.0
# How long a standby waits for a first leader.
FIRST_S = 60.0


def await_turn(
    settings: Settings,
    lock: LeaderLock,
    stop: threading.Event,
    beat: Callable[[], None],
    *,
    second: bool,
) -> bool:
    """Return once this process should start Spark: whether a leader was there until now.

    second: it comes after another one, which it lets go first. A leader that ends is a reason to
    start at once, unless a standby is ready to take over.
    """
    path, begun = records.file_of(settings.data_dir), time.monotonic()
    patience_s = FIRST_S if second else 0.0
    seen, settled_at = False, 0.0
    while not stop.wait(LOOK_S):
        beat()
        now = time.monotonic()
        leading = not lock.free()
        if not leading and not lock.stood_by() and (seen or now - begun >= patience_s):
            return False
        seen = seen or leading
        running = leading and records.read(path).running
        settled_at = (settled_at or now) if running else 0.0
        if running and now - settled_at > SETTLE_S:
            return True
    return False
