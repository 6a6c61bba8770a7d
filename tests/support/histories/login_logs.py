"""Logs of what clients do at the login, for tests of the login guard."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from hashlib import sha256

from domain.login_windows import VERIFIED_MS
from pipelines.login_guard import COUNTED, LOGGER, VERIFIED

DAY_MS = 86_400_000


def client(number: int) -> str:
    """The name of a client."""
    return f"client-{sha256(str(number).encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class Event:
    """A record of `app-logs`. time: ms."""

    time: int
    client: str
    action: str = "login"

    @property
    def value(self) -> bytes:
        """The record as the logging handler makes it."""
        return json.dumps({
            "time": self.time, "level": "WARNING", "logger": LOGGER, "message": self.action,
            "app_name": "tallyboard", "app_version": "0", "client": self.client,
            "action": self.action,
        }).encode()  # fmt: skip


@dataclass
class LoginLog:
    """A day at the login, in the order of the log, from a seed.

    People log in now and then; guessers make bursts of five to eight actions within three seconds;
    slow ones take one every two seconds. After a burst some are verified, half a minute later.
    jitter: how late a record may come, ms.
    """

    begin: int
    seed: int
    length: int = DAY_MS
    people: int = 30
    guessers: int = 12
    slow: int = 4
    jitter: int = 2_000
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        chance = random.Random(self.seed)
        for number in range(self.people):
            for _ in range(chance.randrange(1, 6)):
                self._person(chance, client(number))
        for number in range(self.guessers):
            self._guesser(chance, client(1_000 + number))
        for number in range(self.slow):
            self._slow(chance, client(2_000 + number))
        arrival = {id(one): one.time + chance.randrange(self.jitter + 1) for one in self.events}
        self.events.sort(key=lambda one: arrival[id(one)])

    def _time(self, chance: random.Random) -> int:
        return self.begin + chance.randrange(self.length - 60_000)

    def _person(self, chance: random.Random, name: str) -> None:
        """A login, or one after a wrong password."""
        time = self._time(chance)
        for _ in range(chance.randrange(1, 3)):
            self.events.append(Event(time, name))
            time += chance.randrange(5_000, 20_000)

    def _guesser(self, chance: random.Random, name: str) -> None:
        """A burst, and for some a verification and a further burst, while that holds or later."""
        time = self._time(chance)
        self._burst(chance, name, time)
        if chance.random() < 0.7:
            self.events.append(Event(time + 30_000, name, VERIFIED))
            later = chance.choice((60_000, VERIFIED_MS + 60_000))
            self._burst(chance, name, time + 30_000 + later)

    def _burst(self, chance: random.Random, name: str, time: int) -> None:
        for _ in range(chance.randrange(5, 9)):
            at = time + chance.randrange(3_000)
            self.events.append(Event(at, name, chance.choice(COUNTED)))

    def _slow(self, chance: random.Random, name: str) -> None:
        time = self._time(chance)
        self.events += [Event(time + 2_000 * number, name) for number in range(20)]
