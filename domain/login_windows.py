"""The login guard's fold: a client's actions in overlapping windows, and whether it is verified.

Five-second windows begin every two seconds, so any five actions within three seconds share a
window. Time is the client's own: the newest time among its records. An older record never sets it
back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

WINDOW_MS, HOP_MS = 5_000, 2_000
# Number of actions in one window that challenges a client.
THRESHOLD = 5
# A record older than the client's newest by more than this is dropped.
LATE_MS = 10_000
# How long a client stays verified, and how long a challenge outlasts the last action.
VERIFIED_MS, CHALLENGE_MS = 15 * 60_000, 60 * 60_000
# How often the windows of an active, challenged client are reported.
REFRESH_MS = 30_000

Action = Literal["login", "login-throttled", "token-refused", "form-refused", "verified"]
"""What a client does at the login. All but `verified` count."""
State = Literal["challenge", "verified", "quiet"]


@dataclass(frozen=True)
class ActionWindow:
    """The number of actions in a window. begin, end: ms, end excluded."""

    begin: int
    end: int
    count: int


class ClientReport(NamedTuple):
    """A report about a client. at: the client's time, ms, which never goes back."""

    state: State
    at: int
    windows: tuple[ActionWindow, ...] = ()
    verified_until: int | None = None


def begins(time: int) -> range:
    """Return the start times of the two or three windows that contain a time, ms."""
    last = time - time % HOP_MS
    return range(last, time - WINDOW_MS, -HOP_MS)


@dataclass
class Client:
    """What is remembered about one client: at most eight windows.

    clock: newest time of its records, -1 before the first; counts: number of actions by window
    start; active_at: time of the last action; reported_at: time of the last report; verified_until:
    actions before this do not count, None if the client was never verified; late: number of records
    dropped as too old.
    """

    clock: int = -1
    state: State = "quiet"
    counts: dict[int, int] = field(default_factory=dict)
    active_at: int = -1
    reported_at: int = -1
    verified_until: int | None = None
    late: int = 0

    def act(self, time: int) -> list[ClientReport]:
        """Count an action at `time` ms, and return the reports it causes."""
        if self._too_late(time):
            return []
        reports = self.advance(time)
        if self.verified_until is not None and time < self.verified_until:
            return reports
        self.active_at = max(self.active_at, time)
        for begin in begins(time):
            self.counts[begin] = self.counts.get(begin, 0) + 1
        self._drop_closed_windows()
        return reports + self._challenge()

    def verify(self, time: int) -> list[ClientReport]:
        """Mark the client verified at `time` ms, and return the reports this causes."""
        if self._too_late(time):
            return []
        reports = self.advance(time)
        self.state = "verified"
        self.verified_until = max(self.verified_until or 0, time + VERIFIED_MS)
        self.counts.clear()
        return [*reports, self._report(self.clock)]

    def advance(self, time: int) -> list[ClientReport]:
        """Advance the clock to `time` ms, and return the reports that the passing of time alone
        causes."""
        due = self.due
        self.clock = max(self.clock, time)
        self._drop_closed_windows()
        if self.state == "quiet" or due > self.clock:
            return []
        self.state = "quiet"
        return [self._report(due)]

    @property
    def due(self) -> int:
        """Return when time alone changes the state or allows the client to be forgotten, ms."""
        if self.state == "verified":
            return self.verified_until or 0
        if self.state == "challenge":
            return self.active_at + CHALLENGE_MS
        return self.clock + WINDOW_MS + LATE_MS

    def _too_late(self, time: int) -> bool:
        late = time < self.clock - LATE_MS
        self.late += late
        return late

    def _drop_closed_windows(self) -> None:
        """Drop the windows that no record can change any more."""
        for begin in [one for one in self.counts if one + WINDOW_MS <= self.clock - LATE_MS]:
            del self.counts[begin]

    def _challenge(self) -> list[ClientReport]:
        """Return a report if a window has become full, or if a challenged client's report is due
        again."""
        if self.state == "challenge":
            stale = self.clock - self.reported_at >= REFRESH_MS
            return [self._report(self.clock)] if stale else []
        if max(self.counts.values(), default=0) < THRESHOLD:
            return []
        self.state = "challenge"
        return [self._report(self.clock)]

    def _report(self, at: int) -> ClientReport:
        self.reported_at = at
        windows = tuple(
            ActionWindow(begin, begin + WINDOW_MS, count)
            for begin, count in sorted(self.counts.items())
        )
        until = self.verified_until if self.state == "verified" else None
        return ClientReport(self.state, at, windows, until)
