"""What simulated agents see: sites under attack, failing networks, orders on their way.

Each world yields (time, Report) endlessly from a seed and a start, with increasing times (Unix ms).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

from agents.demo.incidents import LONGEST_MS, SimulatedIncident, Timetable, some, spread
from domain.records import Report
from wire.source import detail_text

Timed = tuple[int, Report]

# How often a world is examined.
STEP_MS = 200
# A simulator reports on everything once within this time after its start.
JOIN_MS = 5_000
# How long after its start nothing happens.
CALM_MS = 2 * JOIN_MS
# How late the slowest agent notices an incident and its end.
NOTICE_MS = 8_000

SITES = tuple(
    f"{name}.example"
    for name in (
        *("shop", "api.shop", "img.shop", "checkout.shop", "www", "blog", "docs", "status"),
        *("login", "accounts", "mail", "webmail", "intranet", "vpn", "git", "ci", "wiki"),
        *("tickets", "forum", "news", "press", "careers", "partners", "investors", "maps"),
        *("search", "video", "static", "cdn", "downloads", "pay", "invoices", "booking"),
        *("events", "survey", "labs", "beta", "m", "old", "archive"),
    )
)
WAFS = tuple(f"waf-{n}" for n in range(1, 9))
SCRUBBERS = ("scrubber-1", "scrubber-2")
NETWORKS = (
    *(f"203.0.113.{n}/28" for n in range(0, 256, 32)),
    *(f"198.51.100.{n}/27" for n in range(0, 256, 32)),
    *("192.0.2.0/25", "192.0.2.128/25", "203.0.113.0/24", "198.51.100.0/24"),
    *("2001:db8:1::/48", "2001:db8:2::/48", "2001:db8:3::/48", "2001:db8:4::/48"),
)
MONITORS = ("monitor-east", "monitor-west")


def _hosts(*names: str) -> tuple[str, ...]:
    return tuple(f"{name}.example" for name in names)


HOSTED: Mapping[str, tuple[str, ...]] = {
    "203.0.113.0/28": _hosts("shop", "checkout.shop"),
    "203.0.113.32/28": _hosts("api.shop", "img.shop"),
    "203.0.113.64/28": _hosts("pay", "invoices"),
    "203.0.113.96/28": _hosts("mail", "webmail"),
    "192.0.2.0/25": _hosts("www", "m"),
    "192.0.2.128/25": _hosts("login", "accounts"),
    "2001:db8:1::/48": _hosts("status", "investors", "partners"),
    "198.51.100.0/27": _hosts("news", "press", "blog"),
    "198.51.100.32/27": _hosts("video", "static"),
    "198.51.100.64/27": _hosts("cdn", "downloads"),
    "2001:db8:3::/48": _hosts("tickets", "booking", "events"),
    "2001:db8:4::/48": _hosts("maps", "search", "survey"),
    "203.0.113.0/24": _hosts("git", "ci", "wiki"),
}
"""The sites that stand in a network. The demo's labels say the same of them."""

ATTACK_KINDS = ("wave", "wave", "disagreement", "flapping", "silence")
CONNECTIVITY_KINDS = ("outage", "brownout", "flapping", "silence")


class Watched:
    """A world of assets watched by agents, which report changes at once and repeat themselves
    regularly."""

    def __init__(
        self,
        name: str,
        seed: int,
        watchers: Mapping[str, tuple[str, ...]],
        draw: Callable[[Random, int], SimulatedIncident],
        see: Callable[[SimulatedIncident, str, str, int], str],
        states: Sequence[str],
        detail: Callable[[str, str, int], dict[str, Any]],
        effects: Callable[[int], Iterable[SimulatedIncident]] = lambda _now: (),
    ) -> None:
        """states: most severe first, the calm one last; watchers: agents by asset; effects: what
        goes on besides at a time (ms), caused by another world."""
        self.timetable, self._effects = Timetable(seed, name, draw), effects
        self._pairs = [(asset, agent) for asset, agents in watchers.items() for agent in agents]
        self._see, self._states, self._detail = see, states, detail

    def __len__(self) -> int:
        return len(self._pairs)

    def run(self, start: int, every_ms: int) -> Iterator[Timed]:
        """Yield reports from `start` (Unix ms) on; an agent repeats itself within `every_ms`.

        A change is reported at once. At first all is calm: incidents of the timetable that are in
        progress when the simulator starts, or begin before it has reported on everything, are left
        out.
        """
        reported: dict[tuple[str, str], tuple[str, int]] = {}
        now = start - start % STEP_MS + STEP_MS
        while True:
            happening = (*self.timetable.at(now), *self._effects(now))
            incidents = [each for each in happening if each.start >= start + CALM_MS]
            for pair in self._pairs:
                if now - start < spread("join", pair, over=JOIN_MS):
                    continue
                state = self._state(incidents, *pair, now)
                before, at = reported.get(pair, ("", 0))
                due = now - at >= every_ms - spread(pair, at, over=every_ms // 5 + 1)
                if state is not None and (state != before or due):
                    reported[pair] = (state, now)
                    detail = detail_text(self._detail(pair[0], state, now))
                    yield now, Report(*pair, state, now, detail)
            now += STEP_MS

    def _state(
        self, incidents: list[SimulatedIncident], asset: str, agent: str, now: int
    ) -> str | None:
        """Return what the agent sees, or None while it is silent."""
        states = [self._states[-1]]
        for incident in incidents:
            if incident.agent not in (None, agent) or asset not in incident.assets:
                continue
            if incident.kind == "silence":
                return None
            states.append(self._see(incident, asset, agent, now))
        return min(states, key=self._states.index)


def attack(seed: int) -> Watched:
    """Return forty sites, mostly calm, each watched by three WAF proxies and a scrubber.

    The retries of clients look like an attack on a site while its network is down.
    """
    watchers = {site: _watchers_of(site) for site in SITES}

    def draw(random: Random, start: int) -> SimulatedIncident:
        kind = random.choice(ATTACK_KINDS)
        if kind == "silence":
            length = random.randint(150_000, LONGEST_MS)
            return SimulatedIncident(
                kind, start, start + length, frozenset(SITES), random.choice(WAFS)
            )
        end = start + random.randint(40_000, 100_000)
        if kind == "wave":
            return SimulatedIncident(kind, start, end, some(random, SITES, 2, 5))
        site = random.choice(SITES)
        agent = random.choice(watchers[site]) if kind == "flapping" else None
        return SimulatedIncident(kind, start, end, frozenset([site]), agent)

    return Watched(
        "attack", seed, watchers, draw, _see_attack, _ATTACK, _attack_detail,
        partial(_retries, connectivity(seed).timetable),
    )  # fmt: skip


def _retries(networks: Timetable, now: int) -> Iterator[SimulatedIncident]:
    """Yield the retries at the sites of each network that is down at a time (ms)."""
    for outage in networks.at(now):
        sites = [site for network in outage.assets for site in HOSTED.get(network, ())]
        if outage.kind == "outage" and sites:
            yield SimulatedIncident("retries", outage.start, outage.end, frozenset(sites))


_ATTACK = ("under-attack", "suspicious", "clear")


def _watchers_of(site: str) -> tuple[str, ...]:
    first = spread(site, over=len(WAFS))
    wafs = (WAFS[(first + step) % len(WAFS)] for step in (0, 1, 3))
    return (*wafs, SCRUBBERS[spread("scrubber", site, over=len(SCRUBBERS))])


def _see_attack(incident: SimulatedIncident, _asset: str, agent: str, now: int) -> str:
    if incident.kind == "flapping":
        return "under-attack" if (now - incident.start) // 6_000 % 2 == 0 else "clear"
    if incident.kind == "disagreement":
        return _ATTACK[spread("opinion", incident.start, agent, over=3)]
    notice = spread("notice", incident.start, agent, over=NOTICE_MS)
    phase = incident.phase(now - notice)
    if phase < 0 or now > incident.end - NOTICE_MS + notice:
        return "clear"
    return "under-attack" if 0.1 < phase < 0.75 else "suspicious"


def _attack_detail(asset: str, state: str, now: int) -> dict[str, Any]:
    usual = 40 + spread(asset, over=400) + spread(asset, now, over=40)
    if state == "clear":
        return {"rate": usual}
    return {
        "kind": ("syn-flood", "login-attempts", "slow-reads", "scraping")[spread(asset, over=4)],
        "rate": usual * (40 if state == "under-attack" else 6),
        "source": f"198.18.{spread('source', asset, over=64)}.0/24",
    }


def connectivity(seed: int) -> Watched:
    """Return two dozen networks, each watched by two monitors; the latest report counts."""

    def draw(random: Random, start: int) -> SimulatedIncident:
        kind = random.choice(CONNECTIVITY_KINDS)
        if kind == "silence":
            length = random.randint(150_000, LONGEST_MS)
            assets = some(random, NETWORKS, 3, 6)
            return SimulatedIncident(kind, start, start + length, assets, random.choice(MONITORS))
        length = random.randint(30_000, 90_000)
        return SimulatedIncident(kind, start, start + length, some(random, NETWORKS, 1, 2))

    watchers = dict.fromkeys(NETWORKS, MONITORS)
    states = ("down", "degraded", "up")
    return Watched(
        "connectivity", seed, watchers, draw, _see_connectivity, states, _connectivity_detail
    )


def _see_connectivity(incident: SimulatedIncident, _asset: str, _agent: str, now: int) -> str:
    if incident.kind == "flapping":
        return "down" if (now - incident.start) // 4_000 % 2 == 0 else "up"
    return "down" if incident.kind == "outage" else "degraded"


def _connectivity_detail(asset: str, state: str, now: int) -> dict[str, Any]:
    if state == "down":
        return {"loss": 1.0, "error": "no reply"}
    slow = 12 if state == "degraded" else 1
    return {
        "latency_ms": slow * (4 + spread(asset, over=30) + spread(asset, now, over=6)),
        "loss": 0.2 if state == "degraded" else 0.0,
    }


STATIONS = {
    "received": ("desk-1", "desk-2"),
    "picking": ("picker-ana", "picker-bo", "picker-caro"),
    "packing": ("packing-1", "packing-2"),
    "shipped": ("dock-north", "dock-south"),
    "delivered": ("courier-11", "courier-12", "courier-14"),
    "on-hold": ("desk-2",),
    "customs": ("border-1",),
    "returned": ("courier-12",),
}
# Where an order is in each state, according to its station.
LOCATIONS = {
    "received": "the front desk",
    "picking": "the shelves",
    "packing": "the packing table",
    "shipped": "the dock",
    "delivered": "the customer's door",
    "on-hold": "the front desk",
    "customs": "the border",
    "returned": "the van",
}
ROUTES = (
    *[("received", "picking", "packing", "shipped", "delivered")] * 12,
    ("received", "on-hold", "picking", "packing", "shipped", "delivered"),
    ("received", "picking", "packing", "shipped", "customs", "delivered"),
    ("received", "picking", "packing", "shipped", "returned", "received", "delivered"),
)
# Orders that arrived within this time are resumed after a restart.
LOOK_BACK_MS = 600_000


class Orders:
    """Orders that pass from station to station; a new one starts every `gap_ms`."""

    def __init__(self, seed: int, gap_ms: int) -> None:
        self._seed, self._gap_ms = seed, gap_ms

    def run(self, start: int) -> Iterator[Timed]:
        """Yield reports from `start` (Unix ms) on, beginning with the current station of each
        order."""
        ahead: list[tuple[int, int, Report]] = []
        number = max(0, start - LOOK_BACK_MS) // self._gap_ms
        while number * self._gap_ms <= start:
            journey = self.journey(number)
            past = [(at, report) for at, report in journey if at <= start][-1:]
            for at, report in past + [(at, report) for at, report in journey if at > start]:
                heapq.heappush(ahead, (max(at, start), number, report))
            number += 1
        while True:
            while not ahead or ahead[0][0] >= number * self._gap_ms:
                for at, report in self.journey(number):
                    heapq.heappush(ahead, (at, number, report))
                number += 1
            at, _, report = heapq.heappop(ahead)
            yield at, report

    def journey(self, number: int) -> list[Timed]:
        """Return all reports ever made about one order."""
        random = Random(f"{self._seed}/orders/{number}")
        at = number * self._gap_ms + random.randrange(self._gap_ms)
        order = f"order-{10_000 + number % 90_000}"
        slow = 4 if random.random() < 0.06 else 1
        reports = []
        for state in random.choice(ROUTES):
            station = random.choice(STATIONS[state])
            detail = detail_text({"parcels": 1 + number % 3, "location": LOCATIONS[state]})
            report = Report(order, station, state, at, detail)
            reports.append((at, report))
            at += slow * random.randint(6_000, 24_000)
        return reports
