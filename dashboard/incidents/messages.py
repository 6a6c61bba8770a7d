"""Messages about an incident, which a higher package offers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dashboard.core.extension_point import Provider
from dashboard.incidents.models import Incident


class Notified(NamedTuple):
    """A message about an incident. at: when it was written, Unix ms; status, why: in words; url: of
    its page."""

    at: int
    subject: str
    recipient: str
    status: str
    why: str
    url: str


def _nothing(incident: Incident) -> Sequence[Notified]:  # noqa: ARG001 - as those who register have it
    return ()


messages_about = Provider(_nothing)
"""Returns the messages about an incident, the newest first."""
