"""Notices into the outbox: of points, and of views that pass a number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import structlog
from django.conf import settings
from django.db import transaction

from bus.base import Bus, ConsumerRecord
from dashboard.core.common.sql import lock_until_commit
from dashboard.core.common.times import DAY_MS
from dashboard.core.states import models
from dashboard.core.states.ingestion import TopicReader
from dashboard.core.states.models import advance_offsets
from dashboard.notify.notifications.channels import MailKind, is_address
from dashboard.notify.notifications.outbox import (
    DELIVERED,
    MessageDraft,
    Recipient,
    put,
    targets_of_named,
)
from wire.invoice import EarnedPoints
from wire.product import Milestone, UnreadableMilestone, decode_milestone
from wire.topics import Topics

# ---- notices -------------------------------------------------------------------------------------
# Notices of points, earned and taken back: into the outbox, from which the notifier sends them.

KIND = "points"
LATE_MS = DAY_MS
"""Nobody is told of points of so long ago: a log that is read again brings them again."""
LATE = "points of long ago"
"""Counted where there is no notice, among what became of messages."""
WHY = "points earned or taken back, by TALLYBOARD_POINTS_CHANNEL"
WHY_OWN = "points earned or taken back, to the customer's own address, by consent"


def put_notices(points: Iterable[EarnedPoints], now: int) -> None:
    """Put a notice of each into the outbox, in the caller's transaction; none where no channel is
    named, or none of that name is there. now: Unix ms.

    It goes to the customer's own address where the record has one, as it does by consent alone,
    else to the channel. The channel's own limit says how many go out by it in which time; those
    beyond it wait, or are told in one.
    """
    earned = [each for each in points if each.earned]
    targets = targets_of_named(settings.TALLYBOARD.points_target)
    if not targets or not earned:
        return
    timely = [each for each in earned if now - each.at < LATE_MS]
    models.add_counts({(DELIVERED, LATE): len(earned) - len(timely)})
    for each in timely:
        own = own_target(each)
        for number, target in enumerate(targets if own is None else [own]):
            drafted = draft(each, WHY if own is None else WHY_OWN)
            put(target, drafted, now, dedupe=f"{KIND}:{each.invoice}:{number}")


def own_target(points: EarnedPoints) -> Recipient | None:
    """Return the customer's own address, None where the record has none that is one."""
    return Recipient(MailKind.name, points.email) if is_address(points.email) else None


def draft(points: EarnedPoints, why: str) -> MessageDraft:
    """Return what a customer is told: short enough for an SMS, and of the card its end alone."""
    card, number = points.card[-4:], abs(points.earned)
    counted = f"{number:,} {'point' if number == 1 else 'points'}"
    what = f"You have earned {counted} with invoice {points.invoice}."
    subject = f"{counted} earned"
    if points.earned < 0:
        were = "was" if number == 1 else "were"
        what = f"{counted} {were} taken back for your return, invoice {points.invoice}."
        subject = f"{counted} taken back"
    text = f"{what} Your card ending in {card} now has {points.total:,}."
    payload = {
        "kind": KIND,
        "invoice": points.invoice,
        "customer": points.customer,
        "earned": points.earned,
        "total": points.total,
    }
    return MessageDraft(KIND, subject, text, payload=payload, why=why)


# ---- milestones ----------------------------------------------------------------------------------
# A mail as the views of a product pass a number, once, whatever is killed or read again.

log = structlog.get_logger(__name__)

MILESTONE_KIND = "views"
MILESTONE_WHY = "views of a product, by TALLYBOARD_VIEWS_CHANNEL"


class MilestoneReader(TopicReader):
    """Reads which products' views have passed a number, and has it told."""

    def __init__(self, bus: Bus, topics: Topics, clock: Callable[[], int]) -> None:
        """clock: returns Unix ms."""
        topic = topics.product_milestones
        super().__init__(bus, "milestones", [topic], lambda messages: announce(messages, clock()))


def announce(messages: Iterable[ConsumerRecord], now: int) -> None:
    """Put a message for each milestone into the outbox, and store the offsets, in one transaction.

    A milestone that was told is not told again. Nobody is told where no channel is named, or none
    of that name is there. now: Unix ms.
    """
    offsets: dict[tuple[str, int], int] = {}
    for message in messages:
        place = message.topic, message.partition
        offsets[place] = max(message.offset + 1, offsets.get(place, 0))
    with transaction.atomic():
        for topic, partition in sorted(offsets):
            lock_until_commit(topic, str(partition))
        for milestone in _milestones(messages):
            _put(milestone, now)
        advance_offsets(offsets)


def _milestones(messages: Iterable[ConsumerRecord]) -> Iterator[Milestone]:
    """Yield what messages say; what cannot be read is counted and passed over."""
    unreadable: Counter[tuple[str, str]] = Counter()
    for message in messages:
        try:
            yield decode_milestone(message.value)
        except UnreadableMilestone as error:
            unreadable["unreadable", message.topic] += 1
            log.warning("milestone cannot be read", offset=message.offset, error=str(error)[:500])
    models.add_counts(unreadable)


def _put(milestone: Milestone, now: int) -> None:
    name = f"{MILESTONE_KIND}:{milestone.product}/{milestone.count}"
    for number, target in enumerate(targets_of_named(settings.TALLYBOARD.views_target)):
        put(target, milestone_draft(milestone), now, dedupe=f"{name}:{number}")


def milestone_draft(milestone: Milestone) -> MessageDraft:
    """Return what is said of a milestone."""
    text = f"{milestone.product} was viewed for the {milestone.count:,}th time."
    payload = {
        "kind": MILESTONE_KIND,
        "product": milestone.product,
        "count": milestone.count,
        "at": milestone.at,
    }
    subject = f"{milestone.product}: {milestone.count:,} views"
    return MessageDraft(MILESTONE_KIND, subject, text, payload=payload, why=MILESTONE_WHY)
