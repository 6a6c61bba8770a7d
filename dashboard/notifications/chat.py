"""Chat and paging services as a kind of channel, by the library Apprise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dashboard.accounts.encryption import NoKey, unseal
from dashboard.core.outbound import Refused
from dashboard.core.outbound_requests import guarded
from dashboard.notifications.channels import Kind, Undelivered
from dashboard.notifications.chat_services import Service, parts_of, services
from dashboard.notifications.models import Channel, Message

LONGEST_TEXT = 2_000
"""Longest text of a message; the list of incidents goes on in the console."""
TIMEOUT_S = 20.0
"""How long is waited for the answers to all requests of a message, s."""


class ChatKind(Kind):
    """Sends through the service that an Apprise URL names."""

    name = "chat"
    label = "Chat or paging (Apprise)"
    secret_label = "Apprise URL, as slack://…"  # noqa: S105 - a label

    def problem(self, address: str, secret: str) -> str:  # noqa: ARG002 - of it the URL is shown
        """Return what is expected of the URL."""
        try:
            service_of(secret)
        except Refused as refused:
            return str(refused)
        return ""

    def refusal(self, channel: Channel) -> str:
        """Return why the channel's URL may not be used; it may have been stored before that was
        so."""
        try:
            return self.problem(channel.address, unseal(channel.secret))
        except NoKey as error:
            return str(error)

    def services(self) -> Sequence[Service]:
        """Return the services that a URL may name, by name."""
        return sorted(services().values(), key=lambda service: service.name.casefold())

    def shown(self, address: str, secret: str) -> str:  # noqa: ARG002 - it has none
        """Return the URL with its secrets masked."""
        return masked(secret)

    def deliver(self, message: Message) -> str:
        """Send a message. Returns what the service is called."""
        if message.channel is None:
            raise Undelivered("its channel is gone", final=True)
        try:
            service = service_of(unseal(message.channel.secret))
        except Refused as error:
            raise Undelivered(str(error), final=True) from None
        except NoKey as error:
            raise Undelivered(str(error)) from None
        _notify(service, message)
        return f"accepted by {service.service_name}"


def _notify(service: Any, message: Message) -> None:
    """Have a service send a message, over the guarded network. Raises Undelivered."""
    import apprise

    with apprise.LogCapture(level=apprise.logging.WARNING) as log, guarded(TIMEOUT_S) as calls:
        accepted = service.notify(body=message.text[:LONGEST_TEXT], title=message.subject)
        words = " ".join(log.getvalue().split())
    if accepted:
        return
    if why := calls.obstacle:
        raise Undelivered(str(why), final=isinstance(why, Refused))
    raise Undelivered(words or f"{service.service_name} refused it")


def service_of(url: str) -> Any:
    """Return Apprise's service of a URL. Raises Refused for what is not allowed."""
    import apprise  # takes a second, and is needed for this kind alone

    asset = apprise.AppriseAsset(http_redirects=False, async_mode=False)
    parts = parts_of(url)
    service = apprise.Apprise.instantiate(parts, asset=asset, suppress_exceptions=True)
    if service is None:
        raise Refused("expected a URL as https://appriseit.com/services/ lists them")
    return service


def masked(url: str) -> str:
    """Return an Apprise URL with its secrets masked. Raises Refused."""
    return str(service_of(url).url(privacy=True))
