"""Records about invoices: an invoice line, masked, and the points that an invoice has earned.

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
# Quantity sold or, below zero, taken back.
Number = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
# Small enough that a day's sum overflows in no database.
Cents = Annotated[int, msgspec.Meta(ge=-(2**40), le=2**40)]
Mail = Annotated[str, msgspec.Meta(max_length=MAX_MAIL, pattern=_NO_NUL)]
Time = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class UnreadableInvoice(ValueError):
    """A record that is neither; the message says what was expected."""


class InvoiceLine(msgspec.Struct, frozen=True):
    """A line of an invoice.

    line: its number, starting at 1; lines: number of lines of the invoice; quantity, amount: below
    zero if the line is taken back; kind: of the invoice, sale or return.
    """

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
        """Whether the invoice is a return.

        Older invoices have no kind and are returns if their amount is negative.
        """
        return _same(self.kind, RETURN) if self.kind else self.amount < 0

    @property
    def first(self) -> bool:
        """Whether this is the line by which the invoice is counted."""
        return self.line == 1

    @property
    def prime(self) -> bool:
        """Whether the customer is a PRIME customer."""
        return _same(self.customer_type, PRIME)

    @property
    def delivered(self) -> bool:
        """Whether the invoice is delivered to the customer's home, as no return is."""
        return _same(self.delivery, HOME_DELIVERY) and not self.returned


class EarnedPoints(msgspec.Struct, frozen=True):
    """The points earned by an invoice, below zero if they are taken back.

    total: of the card, from then on; email: where to notify the customer, empty without consent.
    """

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
    """Return whether a text equals this word, ignoring case."""
    return text.strip().casefold() == word.casefold()


def _decode(value: bytes | None, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(value or b"", type=type_)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreadableInvoice(f"{type_.__name__}: {error}") from None
