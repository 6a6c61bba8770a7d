"""Records about products: the number of a product's views has passed a milestone."""

from __future__ import annotations

import msgspec

from wire.invoice import Count, Name, Time


class UnreadableMilestone(ValueError):
    """A record that is no milestone; the message says what was expected."""


class Milestone(msgspec.Struct, frozen=True):
    """The views of a product have reached `count`. at: time of that view, Unix ms."""

    product: Name
    count: Count
    at: Time


def decode_milestone(value: bytes | None) -> Milestone:
    """Return the milestone in a record. Raises UnreadableMilestone."""
    try:
        return msgspec.json.decode(value or b"", type=Milestone)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreadableMilestone(str(error)) from None
