"""Events of a loop that other threads set."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

from dashboard.board.live.threads import Wakeups


class Loop(asyncio.SelectorEventLoop):
    """A loop that notes what it is called for."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Any] = []

    def call_soon_threadsafe(self, callback: Any, *_: object, **__: object) -> Any:
        """Note the call."""
        self.calls.append(callback)


def test_a_loop_is_called_once_for_all_that_come_together():
    with closing(Loop()) as loop:
        _set_together(loop)


def _set_together(loop: Loop) -> None:
    wakeups, events = Wakeups(loop), [asyncio.Event() for _ in range(3)]
    for event in events:
        wakeups.set(event)
    assert len(loop.calls) == 1
    loop.calls[0]()
    assert all(event.is_set() for event in events)
    later = asyncio.Event()
    wakeups.set(later)
    assert len(loop.calls) == 2
    loop.calls[1]()
    assert later.is_set()


def test_no_wakeup_of_several_threads_is_lost():
    async def wait_for_all() -> None:
        wakeups = Wakeups(asyncio.get_running_loop())
        events = [asyncio.Event() for _ in range(2_000)]
        with ThreadPoolExecutor(4) as pool:
            sent = [pool.submit(wakeups.set, event) for event in events]
            async with asyncio.timeout(30):
                await asyncio.gather(*(event.wait() for event in events))
            assert all(one.result() is None for one in sent)

    asyncio.run(wait_for_all())
