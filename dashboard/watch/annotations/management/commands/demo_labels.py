"""`manage.py demo_labels`: labels of the demo's assets with the demo, none of them without it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from django.conf import settings
from django.core.management.base import BaseCommand

from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import now_ms
from dashboard.watch.annotations.labels import choose_chips, put
from dashboard.watch.annotations.models import PERSON, Label, LabelChange

# ---- demo ----------------------------------------------------------------------------------------
# The demo's labels: whose its sites and networks are, on which tier, who owns them, and which sites
# lie behind which network.

AUTHOR = "the demo"
CHIPS = ("customer", "tier")
"""The keys whose labels the board's rows show."""


class Holding(NamedTuple):
    """The assets of one customer that one team owns."""

    customer: str
    tier: str
    owner: str
    assets: tuple[str, ...]

    def labels(self) -> dict[str, str]:
        """Return the labels of each of them."""
        return {"customer": self.customer, "tier": self.tier, "owner": self.owner}


def _sites(*names: str) -> tuple[str, ...]:
    return tuple(f"{name}.example" for name in names)


def _networks(prefix: str, bits: int) -> tuple[str, ...]:
    return tuple(f"{prefix}.{n}/{bits}" for n in range(0, 256, 32))


HOLDINGS: Mapping[str, Collection[Holding]] = {
    "attack": (
        Holding("Acme GmbH", "gold", "shop team", _sites(
            "shop", "api.shop", "img.shop", "checkout.shop", "pay", "invoices", "mail", "webmail",
        )),
        Holding("First Bank", "gold", "web team", _sites(
            "www", "login", "accounts", "m", "status", "investors", "partners",
        )),
        Holding("Daily Post", "silver", "web team", _sites(
            "news", "press", "blog", "forum", "video", "careers", "static", "cdn", "downloads",
        )),
        Holding("City Tickets", "bronze", "shop team", _sites(
            "tickets", "booking", "events", "maps", "search", "survey",
        )),
        Holding("in-house", "silver", "platform team", _sites(
            "intranet", "vpn", "git", "ci", "wiki", "docs", "labs", "beta", "old", "archive",
        )),
    ),
    "connectivity": (
        Holding("Acme GmbH", "gold", "network team", _networks("203.0.113", 28)),
        Holding("Daily Post", "silver", "network team", _networks("198.51.100", 27)),
        Holding("First Bank", "gold", "network team", (
            "192.0.2.0/25", "192.0.2.128/25", "2001:db8:1::/48", "2001:db8:2::/48",
        )),
        Holding("City Tickets", "bronze", "network team", ("2001:db8:3::/48", "2001:db8:4::/48")),
        Holding("in-house", "silver", "platform team", (
            "203.0.113.0/24", "198.51.100.0/24", "broker", "web-server", "demo-target",
        )),
    ),
}  # fmt: skip
NETWORKS: Mapping[str, tuple[str, ...]] = {
    "203.0.113.0/28": _sites("shop", "checkout.shop"),
    "203.0.113.32/28": _sites("api.shop", "img.shop"),
    "203.0.113.64/28": _sites("pay", "invoices"),
    "203.0.113.96/28": _sites("mail", "webmail"),
    "192.0.2.0/25": _sites("www", "m"),
    "192.0.2.128/25": _sites("login", "accounts"),
    "2001:db8:1::/48": _sites("status", "investors", "partners"),
    "198.51.100.0/27": _sites("news", "press", "blog"),
    "198.51.100.32/27": _sites("video", "static"),
    "198.51.100.64/27": _sites("cdn", "downloads"),
    "2001:db8:3::/48": _sites("tickets", "booking", "events"),
    "2001:db8:4::/48": _sites("maps", "search", "survey"),
    "203.0.113.0/24": _sites("git", "ci", "wiki"),
}
"""The sites that lie behind a network, each in one of its own customer."""


def ensure(now: int) -> int:
    """Give the demo's assets their labels at a time, Unix ms, on each board that has never had any.
    Returns to how many assets."""
    known = set(LabelChange.objects.values_list("scenario", flat=True))
    missing = {name: _labels_of(name) for name in HOLDINGS.keys() & scenarios().keys() - known}
    for scenario, labels in missing.items():
        put(scenario, labels, AUTHOR, now)
        choose_chips(scenario, CHIPS)
    return sum(map(len, missing.values()))


def _labels_of(scenario: str) -> dict[str, dict[str, str | None]]:
    labels: dict[str, dict[str, str | None]] = {
        asset: dict(holding.labels()) for holding in HOLDINGS[scenario] for asset in holding.assets
    }
    for network, sites in NETWORKS.items() if scenario == "attack" else ():
        for site in sites:
            labels[site]["network"] = network
    return labels


def retire(now: int) -> int:
    """Take the labels that the demo has given away at a time, Unix ms, as it is off. Returns of how
    many assets."""
    gone: dict[str, dict[str, dict[str, str | None]]] = {}
    rows = Label.objects.filter(source=PERSON, name=AUTHOR)
    for scenario, asset, key in rows.values_list("scenario", "asset", "key"):
        gone.setdefault(scenario, {}).setdefault(asset, {})[key] = None
    for scenario, labels in gone.items():
        put(scenario, labels, AUTHOR, now)
    return sum(map(len, gone.values()))


# ---- demo labels ---------------------------------------------------------------------------------
# `manage.py demo_labels`: labels of the demo's assets with the demo, none of these without it.


class Command(BaseCommand):
    """A command that labels the demo's assets once; without the demo it takes these labels away."""

    help = "With the demo, label its sites and networks once; without it, delete these labels."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Make or delete the labels, and print of how many assets."""
        if settings.TALLYBOARD.demo:
            if labelled := ensure(now_ms()):
                self.stdout.write(f"The demo's {labelled} sites and networks have labels.")
        elif unlabelled := retire(now_ms()):
            self.stdout.write(f"The demo is off: {unlabelled} sites and networks lose its labels.")
