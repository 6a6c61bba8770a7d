"""A mail as the views of a product pass a number, once, whatever is killed or read again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import structlog
from django.conf import settings
from django.db import transaction

from bus.base import Bus, Message
from dashboard.checkpoints import counts
from dashboard.checkpoints.offsets import advance
from dashboard.core.sql import lock_until_commit
from dashboard.notifications.outbox import Draft, put, targets_of_named
from dashboard.states.topic_reader import TopicReader
from wire.product import Milestone, UnreadableMilestone, decode_milestone
from wire.topics import Topics

log = structlog.get_logger(__name__)

KIND = "views"
WHY = "views of a product, by TALLYBOARD_VIEWS_CHANNEL"


class MilestoneReader(TopicReader):
    """Reads which products' views have passed a number, and has it told."""

    def __init__(self, bus: Bus, topics: Topics, clock: Callable[[], int]) -> None:
        """clock: returns Unix ms."""
        topic = topics.product_milestones
        super().__init__(bus, "milestones", [topic], lambda messages: tell(messages, clock()))


def tell(messages: Iterable[Message], now: int) -> None:
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
        advance(offsets)


def _milestones(messages: Iterable[Message]) -> Iterator[Milestone]:
    """Yield what messages say; what cannot be read is counted and passed over."""
    unreadable: Counter[tuple[str, str]] = Counter()
    for message in messages:
        try:
            yield decode_milestone(message.value)
        except UnreadableMilestone as error:
            unreadable["unreadable", message.topic] += 1
            log.warning("milestone cannot be read", offset=message.offset, error=str(error)[:500])
    counts.add(unreadable)


def _put(milestone: Milestone, now: int) -> None:
    name = f"{KIND}:{milestone.product}/{milestone.count}"
    for number, target in enumerate(targets_of_named(settings.TALLYBOARD.views_target)):
        put(target, draft(milestone), now, dedupe=f"{name}:{number}")


def draft(milestone: Milestone) -> Draft:
    """Return what is said of a milestone."""
    text = f"{milestone.product} was viewed for the {milestone.count:,}th time."
    payload = {
        "kind": KIND,
        "product": milestone.product,
        "count": milestone.count,
        "at": milestone.at,
    }
    subject = f"{milestone.product}: {milestone.count:,} views"
    return Draft(KIND, subject, text, payload=payload, why=WHY)
