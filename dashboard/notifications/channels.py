"""The kinds of channel: one class each, registered when Django starts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from django.contrib.auth.models import User

from dashboard.notifications.models import Channel, Message


class Undelivered(Exception):
    """A try that failed, in words. final: whether another would fail too."""

    def __init__(self, why: str, *, final: bool = False) -> None:
        super().__init__(why)
        self.final = final


class Obstacle(Exception):
    """Nothing of a kind can be sent at all now, in words: its messages are held, not tried."""


class Kind(ABC):
    """A kind of channel.

    name: in the database; label: on pages; address_label, secret_label: what an admin enters, empty
    where there is nothing to enter.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    address_label: ClassVar[str] = ""
    secret_label: ClassVar[str] = ""

    @abstractmethod
    def deliver(self, message: Message) -> str:
        """Deliver a message. Returns the receiver's answer; raises Undelivered and Obstacle."""

    def problem(self, address: str, secret: str) -> str:  # noqa: ARG002 - for those that have one
        """Return what is expected of an address and a secret that are wrong; empty if none is."""
        return ""

    def refusal(self, channel: Channel) -> str:  # noqa: ARG002 - for those that have one
        """Return why nothing is sent by a channel as it is stored; empty if it is."""
        return ""

    def services(self) -> Sequence[Any]:
        """Return the services that a secret may name, for those that name one."""
        return ()

    def new_secret(self) -> str:
        """Return a secret that we make for a channel, which is shown once; empty for none."""
        return ""

    def shown(self, address: str, secret: str) -> str:  # noqa: ARG002 - for secrets with addresses
        """Return what is shown as the address of a channel."""
        return address

    def recipients(self, channel: Channel) -> Iterable[str]:
        """Return whom a channel reaches, in words: a message goes to each."""
        return (channel.address,)

    def recipient_of(self, user: User) -> str:  # noqa: ARG002 - for those that reach users
        """Return a user's address of this kind; empty for none."""
        return ""


CHANNELS: dict[str, Kind] = {}
"""The kinds by name."""


def register(kind: Kind) -> None:
    """Offer a kind of channel: once, when Django starts."""
    CHANNELS[kind.name] = kind
