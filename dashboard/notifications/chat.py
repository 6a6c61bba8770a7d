"""Chat and paging services as a kind of channel, by the library Apprise."""

from __future__ import annotations

from typing import Any

from django.conf import settings

from dashboard.accounts.encryption import NoKey, unseal
from dashboard.core.outbound import Refused, Unreachable, check_host
from dashboard.notifications.channels import Kind, Undelivered
from dashboard.notifications.models import Message

LONGEST_TEXT = 2_000
"""Longest text of a message; the list of incidents goes on in the console."""
NOT_OURS = frozenset((
    "dbus", "emby", "enigma2", "form", "forms", "glib", "gnome", "growl", "json", "jsons", "kde",
    "kodi", "kodis", "macosx", "mailto", "mailtos", "mqtt", "mqtts", "qt", "rsyslog", "smpp",
    "smpps", "syslog", "windows", "xbmc", "xbmcs", "xml", "xmls",
))  # fmt: skip
"""Services of Apprise that are none of ours: this machine's own, devices of a home, mail and
webhooks, which are kinds of channel of their own here."""


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

    def shown(self, address: str, secret: str) -> str:  # noqa: ARG002 - it has none
        """Return the URL with its secrets masked."""
        return masked(secret)

    def deliver(self, message: Message) -> str:
        """Send a message. Returns what the service is called."""
        import apprise  # takes a second, and is needed for this kind alone

        if message.channel is None:
            raise Undelivered("its channel is gone", final=True)
        try:
            service = service_of(unseal(message.channel.secret))
            _check_target(service)
        except Refused as error:
            raise Undelivered(str(error), final=True) from None
        except (NoKey, Unreachable) as error:
            raise Undelivered(str(error)) from None
        with apprise.LogCapture(level=apprise.logging.WARNING) as log:
            accepted = service.notify(body=message.text[:LONGEST_TEXT], title=message.subject)
            words = log.getvalue()
        if not accepted:
            raise Undelivered(" ".join(words.split()) or f"{service.service_name} refused it")
        return f"accepted by {service.service_name}"


def service_of(url: str) -> Any:
    """Return Apprise's service of a URL. Raises Refused for what is none of ours."""
    import apprise

    # A redirect may lead into our own network.
    asset = apprise.AppriseAsset(http_redirects=False, async_mode=False)
    service = apprise.Apprise.instantiate(url, asset=asset, suppress_exceptions=True)
    schema = url.partition("://")[0].lower()
    if service is None:
        raise Refused("expected a URL as https://appriseit.com/services/ lists them")
    if schema in NOT_OURS:
        raise Refused(f"expected a chat or paging service, and {schema} is none")
    return service


def masked(url: str) -> str:
    """Return an Apprise URL with its secrets masked. Raises Refused."""
    return str(service_of(url).url(privacy=True))


def _check_target(service: Any) -> None:
    """Raise Refused where a service that one runs oneself is at an address that may not be called.

    Unlike a webhook it is looked up again when it is called; so do not let people enter URLs whom
    you would not let call addresses of your network.
    """
    own_host = any("{host}" in template for template in getattr(service, "templates", ()))
    if own_host and service.host and not settings.TALLYBOARD.private_targets:
        check_host(service.host, service.port or 443)
