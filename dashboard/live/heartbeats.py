"""The message to every open board each two seconds, worked out once for each scenario."""

from __future__ import annotations

import msgspec

from dashboard.core.scenarios import scenarios
from dashboard.job.freshness import board_troubles, find_troubles
from dashboard.live.database_threads import per_loop
from dashboard.live.live_view import LiveView
from dashboard.live.shared_live_view import live_view
from domain.scenario import Scenario

# What was worked out so long ago at the most is told to another socket.
SHARED_MS = 250


class Beats:
    """The messages for the sockets of one event loop."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, bytes]] = {}

    def message(self, scenario: str, now: int) -> bytes:
        """Return the message at `now` (Unix ms) for a socket that shows this scenario."""
        made, body = self._known.get(scenario, (0, b""))
        if now - made > SHARED_MS:
            body = _body(live_view(), scenarios(), scenario, now)
            self._known[scenario] = (now, body)
        return body[:-1] + b',"now":%d}' % now


def _body(view: LiveView, known: dict[str, Scenario], current: str, now: int) -> bytes:
    counts = view.counts()
    worst = {  # of others the tab keeps what it shows
        name: counts[name].get(scenario.states[0].name, 0)
        for name, scenario in known.items()
        if name in counts and scenario.states and not scenario.life_cycle
    }
    facts, boards = view.signs.facts(), list(known.values())
    return msgspec.json.encode(
        {
            "type": "beat",
            "heard": view.heard,
            "worst": worst,
            "troubles": find_troubles(facts, boards, current, now),
            "board_troubles": board_troubles(facts, boards, now),
        }
    )


beats = per_loop(Beats)
