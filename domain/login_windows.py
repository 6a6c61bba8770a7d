"""A client's actions in overlapping windows, and whether it is verified: the login guard's fold.

Windows of five seconds begin every two, so any five actions within three seconds share one. Time is
the client's own: the newest time among its records, which an older record never sets back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

WINDOW_MS, HOP_MS = 5_000, 2_000
# So many actions in one window challenge a client.
THRESHOLD = 5
# A record that is older than the client's newest by more than this is dropped.
LATE_MS = 10_000
# How long a client stays verified, and how long a challenge outlasts the last action.
VERIFIED_MS, CHALLENGE_MS = 15 * 60_000, 60 * 60_000
# How often the windows of a client that goes on are reported.
REFRESH_MS = 30_000

Action = Literal["login", "login-throttled", "token-refused", "form-refused", "verified"]
"""What a client does at the login; all but `verified` count."""
State = Literal["challenge", "verified", "quiet"]


@dataclass(frozen=True)
class ActionWindow:
    """How many actions fall into a window; begin, end: ms, the end not included."""

    begin: int
    end: int
    count: int


class ClientReport(NamedTuple):
    """What is to be reported of a client. at: in the client's time, ms, which never goes back."""

    state: State
    at: int
    windows: tuple[ActionWindow, ...] = ()
    verified_until: int | None = None


def begins(time: int) -> range:
    """Return where the windows begin that a time lies in, ms: two or three of them."""
    last = time - time % HOP_MS
    return range(last, time - WINDOW_MS, -HOP_MS)


@dataclass
class Client:
    """What is remembered of one client; that is no more than eight windows.

    clock: the newest time of its records, -1 before the first; counts: actions by where their
    window begins; active_at: the last action; reported_at: the last report; verified_until: actions
    before that do not count, None where it never was verified; late: records dropped as too old.
    """

    clock: int = -1
    state: State = "quiet"
    counts: dict[int, int] = field(default_factory=dict)
    active_at: int = -1
    reported_at: int = -1
    verified_until: int | None = None
    late: int = 0

    def act(self, time: int) -> list[ClientReport]:
        """Count an action at `time` ms; return what is to be reported."""
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
        """Take it that the client was verified at `time` ms; return what is to be reported."""
        if self._too_late(time):
            return []
        reports = self.advance(time)
        self.state = "verified"
        self.verified_until = max(self.verified_until or 0, time + VERIFIED_MS)
        self.counts.clear()
        return [*reports, self._report(self.clock)]

    def advance(self, time: int) -> list[ClientReport]:
        """Let time pass up to `time` ms; return what is to be reported for that alone."""
        due = self.due
        self.clock = max(self.clock, time)
        self._drop_closed_windows()
        if self.state == "quiet" or due > self.clock:
            return []
        self.state = "quiet"
        return [self._report(due)]

    @property
    def due(self) -> int:
        """Return when time alone changes the state, or lets the client be forgotten, ms."""
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
        """Return a report where a window has become full, or a challenged client goes on."""
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
