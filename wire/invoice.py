"""Records about invoices: a line of one, masked, and the points that one has earned.

Times in Unix ms, money in cents.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

T = TypeVar("T")

PRIME, HOME_DELIVERY, RETURN = "PRIME", "HOME-DELIVERY", "return"
MAX_NAME, MAX_TITLE = 60, 200
_NO_NUL = "^[^\\x00]*$"
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME, pattern=_NO_NUL)]
Title = Annotated[str, msgspec.Meta(max_length=MAX_TITLE, pattern=_NO_NUL)]
MAX_MAIL = 254
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
# Of what was sold, or below zero: of what was taken back.
Number = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
# So many fit into a sum of a day that no database overflows.
Cents = Annotated[int, msgspec.Meta(ge=-(2**40), le=2**40)]
Mail = Annotated[str, msgspec.Meta(max_length=MAX_MAIL, pattern=_NO_NUL)]
Time = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class UnreadableInvoice(ValueError):
    """A record that is neither; the message says what was expected."""


class InvoiceLine(msgspec.Struct, frozen=True):
    """A line of an invoice. line: its number, from 1 on; lines: how many the invoice has; quantity
    and amount: below zero where the line is taken back; kind: of the invoice, sale or return."""

    invoice: Name
    store: Name
    at: Time
    line: Count
    lines: Count
    product: Name
    title: Title = ""
    quantity: Number = 0
    amount: Cents = 0
    customer_type: Title = ""
    delivery: Title = ""
    kind: Title = ""

    @property
    def returned(self) -> bool:
        """Return whether the invoice is a return; one of before there were kinds is, if its amount
        is negative."""
        return _same(self.kind, RETURN) if self.kind else self.amount < 0

    @property
    def first(self) -> bool:
        """Return whether the invoice is counted by this line."""
        return self.line == 1

    @property
    def prime(self) -> bool:
        """Return whether it was sold to a PRIME customer."""
        return _same(self.customer_type, PRIME)

    @property
    def delivered(self) -> bool:
        """Return whether the invoice is delivered to the customer's home, as no return is."""
        return _same(self.delivery, HOME_DELIVERY) and not self.returned


class EarnedPoints(msgspec.Struct, frozen=True):
    """The points that an invoice has earned, below zero where they are taken back; total: of the
    card, from then on; email: where the customer wants to be told, empty without consent."""

    card: Name
    customer: Name
    invoice: Name
    earned: Number
    total: Number
    at: Time
    email: Mail = ""


def decode_line(value: bytes | None) -> InvoiceLine:
    """Return a line of an invoice. Raises UnreadableInvoice."""
    return _decode(value, InvoiceLine)


def decode_points(value: bytes | None) -> EarnedPoints:
    """Return the points of an invoice. Raises UnreadableInvoice."""
    return _decode(value, EarnedPoints)


def _same(text: str, word: str) -> bool:
    """Return whether a text is this word, in capitals or not."""
    return text.strip().casefold() == word.casefold()


def _decode(value: bytes | None, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(value or b"", type=type_)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreadableInvoice(f"{type_.__name__}: {error}") from None
