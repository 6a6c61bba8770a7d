"""Test messages: to a channel, or to all whom a rule would tell first."""

from __future__ import annotations

from dashboard.core.rate_limits import Limit
from dashboard.notifications.models import Channel, Message, Rule
from dashboard.notifications.on_call import reach
from dashboard.notifications.outbox import (
    Draft,
    Target,
    put,
    targets_of_channel,
)
from domain.notifications.rule_parser import rule_from_plain

LIMIT = Limit("trials", 20)


def send_to_channel(channel: Channel, by: str, now: int) -> list[Message]:
    """Store a test message to all whom a channel reaches. Returns the messages."""
    return _send(targets_of_channel(channel), _draft(f"the channel {channel.name}", by), now)


def send_by_rule(rule: Rule, by: str, now: int) -> list[Message]:
    """Store a test message to all whom a rule tells first. Returns the messages."""
    first = rule_from_plain(rule.definition).stages[0]
    targets = [target for _, target in reach([(0, first)], now).targets]
    draft = _draft(f"the rule {rule.name}", by, rule)
    return _send(targets, draft, now)


def _draft(what: str, by: str, rule: Rule | None = None) -> Draft:
    text = f"{by} tries {what}. Nothing has happened."
    return Draft("test", f"Test of {what}", text, why=f"a test by {by}", rule=rule)


def _send(targets: list[Target], draft: Draft, now: int) -> list[Message]:
    return [put(target, draft, now) for target in targets]
