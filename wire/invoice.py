"""Records about invoices: a line of one, masked, and the points that one has earned.

Times in Unix ms, money in cents.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

T = TypeVar("T")

MAX_NAME, MAX_TITLE = 60, 200
_NO_NUL = "^[^\\x00]*$"
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME, pattern=_NO_NUL)]
Title = Annotated[str, msgspec.Meta(max_length=MAX_TITLE, pattern=_NO_NUL)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
# So many fit into a sum of a day that no database overflows.
Cents = Annotated[int, msgspec.Meta(ge=-(2**40), le=2**40)]
Time = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class UnreadableInvoice(ValueError):
    """A record that is neither; the message says what was expected."""


class InvoiceLine(msgspec.Struct, frozen=True):
    """A line of an invoice. line: its number, from 1 on; lines: how many the invoice has."""

    invoice: Name
    store: Name
    at: Time
    line: Count
    lines: Count
    product: Name
    title: Title = ""
    quantity: Count = 0
    amount: Cents = 0
    customer_type: Title = ""
    delivery: Title = ""

    @property
    def first(self) -> bool:
        """Return whether the invoice is counted by this line."""
        return self.line == 1

    @property
    def prime(self) -> bool:
        """Return whether it was sold to a PRIME customer."""
        return self.customer_type == "PRIME"

    @property
    def delivered(self) -> bool:
        """Return whether the invoice is delivered to the customer's home."""
        return self.delivery == "HOME-DELIVERY"


class EarnedPoints(msgspec.Struct, frozen=True):
    """The points that an invoice has earned; total: of the card, from then on."""

    card: Name
    customer: Name
    invoice: Name
    earned: Count
    total: Count
    at: Time


def decode_line(value: bytes | None) -> InvoiceLine:
    """Return a line of an invoice. Raises UnreadableInvoice."""
    return _decode(value, InvoiceLine)


def decode_points(value: bytes | None) -> EarnedPoints:
    """Return the points of an invoice. Raises UnreadableInvoice."""
    return _decode(value, EarnedPoints)


def _decode(value: bytes | None, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(value or b"", type=type_)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreadableInvoice(f"{type_.__name__}: {error}") from None
