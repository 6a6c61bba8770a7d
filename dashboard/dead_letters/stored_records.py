"""A stored letter's parts, as the bytes that they were."""

from __future__ import annotations

import msgspec

from dashboard.dead_letters.diagnosis import Sample
from dashboard.dead_letters.models import DeadLetter

_HEADERS = msgspec.json.Decoder(list[tuple[str, bytes]])


def place_of(letter: DeadLetter) -> str:
    """Return where the refused record lay: topic/partition/offset."""
    return f"{letter.topic}/{letter.partition}/{letter.offset}"


def headers_of(letter: DeadLetter) -> list[tuple[str, bytes]]:
    """Return the refused record's headers."""
    return _HEADERS.decode(letter.headers)


def sample_of(letter: DeadLetter) -> Sample:
    """Return the refused record."""
    key, value = key_of(letter), value_of(letter)
    return Sample(key, value, letter.partition, letter.appended_at)


def key_of(letter: DeadLetter) -> bytes | None:
    """Return the key, as far as it was kept, or None."""
    return None if letter.key is None else bytes(letter.key)


def value_of(letter: DeadLetter) -> bytes | None:
    """Return the value, as far as it was kept, or None."""
    return None if letter.value is None else bytes(letter.value)
