"""Chat and paging services as a kind of channel, through the Apprise library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from dashboard.core.accounts.encryption import NoKey, unseal
from dashboard.core.common.outbound import AddressRefused, guarded
from dashboard.notify.notifications.channels import ChannelKind, Undelivered
from dashboard.notify.notifications.models import Channel, Message

# ---- chat services -------------------------------------------------------------------------------
# The Apprise services that a channel can use, and the parameters allowed in its URL.

EVERYWHERE = ("format", "overflow")
"""Parameters allowed in the URL of every service."""
ALLOWED: Mapping[str, tuple[str, ...]] = {
    "betterstack": ("to", "token", "from", "policy", "team_wait", "alert"),
    "dingtalk": ("to", "token", "secret"),
    "discord": ("thread", "tts", "footer", "fields", "ping", "flags", "botname", "avatar"),
    "feishu": ("token",),
    "gchat": ("workspace", "key", "token", "thread", "threadkey"),
    "goalert": ("token", "dedup", "action"),
    "gotify": ("priority",),
    "ilert": ("key", "priority", "route", "dedup", "action", "click"),
    "incidentio": ("token", "source", "dedup", "action", "click"),
    "lark": ("token",),
    "matrix": ("to", "token", "mode", "version", "v", "msgtype", "hsreq", "discovery", "e2ee"),
    "mmost": ("to", "channel", "channels", "team", "botname", "mode"),
    "msgbird": ("to", "from"),
    "nctalk": ("secret", "silent", "url_prefix"),
    "ntfy": ("to", "token", "auth", "mode", "priority", "tags", "xtags", "click", "delay", "email"),
    "opsgenie": ("to", "apikey", "region", "priority", "entity", "alias", "tags", "action"),
    "pagerduty": (
        "integrationkey", "apikey", "source", "component", "group", "class", "region", "severity",
        "dedup", "action", "click",
    ),
    "pagertree": ("id", "integration", "urgency", "dedup", "tags", "action", "thirdparty", "tid"),
    "pbul": ("to",),
    "pover": ("to", "key", "priority", "sound", "expire", "interval", "url", "url_title"),
    "prowl": ("priority",),
    "revolt": ("to", "channel", "bot_token"),
    "rocket": ("to", "mode", "webhook", "avatar"),
    "seven": ("to", "from", "source", "flash", "label"),
    "signal": ("to", "from", "batch", "status"),
    "signl4": (
        "secret", "service", "location", "alerting_scenario", "filtering", "external_id", "status",
        "dedup", "action",
    ),
    "slack": ("to", "token", "mode", "footer", "timestamp", "blocks"),
    "splunk": ("apikey", "route", "routing_key", "entity_id", "action"),
    "squadcast": ("key", "region", "priority", "dedup", "action"),
    "tgram": ("to", "topic", "thread", "silent", "preview", "mdv", "detect", "content"),
    "twilio": ("to", "from", "source", "sid", "token", "apikey", "method"),
    "vonage": ("to", "from", "source", "key", "secret", "ttl"),
    "webex": ("to", "token", "mode"),
    "workflow": (
        "workflow", "id", "signature", "sig", "sv", "sp", "api-version", "ver", "powerautomate",
        "pa", "route", "routeid", "wrap",
    ),
    "zulip": ("to", "token"),
}  # fmt: skip
"""Allowed parameters by URL schema of the service. None of them names an address or a file to read,
sets a timeout, or disables the verification of certificates."""


class Service(NamedTuple):
    """A service that a channel can use. beginnings: URL prefixes; parameters: sorted."""

    name: str
    beginnings: tuple[str, ...]
    parameters: tuple[str, ...]


@lru_cache(maxsize=1)
def services() -> Mapping[type, Service]:
    """Return the allowed services by their Apprise class."""
    from apprise.plugins import N_MGR  # takes a second to import, and only this kind needs it

    return {N_MGR[schema]: _service(N_MGR[schema], names) for schema, names in ALLOWED.items()}


def _service(plugin: Any, names: tuple[str, ...]) -> Service:
    schemas: list[str] = []
    for schema in (plugin.protocol, plugin.secure_protocol):
        schemas += [schema] if isinstance(schema, str) else (schema or ())
    known = tuple(dict.fromkeys(f"{schema}://" for schema in schemas))
    return Service(str(plugin.service_name), known, tuple(sorted((*names, *EVERYWHERE))))


def parts_of(url: str) -> dict[str, Any]:
    """Return the parts of a URL as Apprise parses it.

    Raises AddressRefused if its service or one of its parameters is not allowed; the message
    contains nothing secret.
    """
    from apprise.plugins import N_MGR, url_to_dict

    try:
        parts: dict[str, Any] | None = url_to_dict(url)
    except (TypeError, ValueError, LookupError, AttributeError):  # raised for an invalid URL
        parts = None
    if not parts:
        raise AddressRefused("expected a URL from the list at https://appriseit.com/services/")
    plugin = N_MGR[parts["schema"]]
    service = services().get(plugin)
    if service is None:
        raise AddressRefused(f"expected one of the allowed services; {parts['schema']} is not one")
    if others := set(parts["qsd"]) - {*service.parameters, ""}:
        # A key pasted in the wrong place is parsed as a parameter too, and must not be shown.
        named = sorted(others & set(plugin.template_args)) or ["an unknown one"]
        allowed = ", ".join(service.parameters)
        raise AddressRefused(
            f"expected no parameters of {service.name} but {allowed}; got {', '.join(named)}"
        )
    return parts


# ---- chat ----------------------------------------------------------------------------------------
# Chat and paging services as a kind of channel, through the Apprise library.

LONGEST_TEXT = 2_000
"""Length of the longest text, in characters; the rest of the incidents is in the console."""
TIMEOUT_S = 20.0
"""Timeout for all requests of one message together, s."""


class ChatKind(ChannelKind):
    """Sends messages through the service in an Apprise URL."""

    name = "chat"
    label = "Chat or paging (Apprise)"
    secret_label = "Apprise URL, such as slack://…"  # noqa: S105 - a label

    def problem(self, address: str, secret: str) -> str:  # noqa: ARG002 - of it the URL is shown
        """Return what is wrong with the URL, in the form of an expectation; empty if nothing is."""
        try:
            service_of(secret)
        except AddressRefused as refused:
            return str(refused)
        return ""

    def refusal(self, channel: Channel) -> str:
        """Return why the channel's URL may not be used; it may have been stored before it was
        disallowed."""
        try:
            return self.problem(channel.address, unseal(channel.secret))
        except NoKey as error:
            return str(error)

    def services(self) -> Sequence[Service]:
        """Return the allowed services, sorted by name."""
        return sorted(services().values(), key=lambda service: service.name.casefold())

    def shown(self, address: str, secret: str) -> str:  # noqa: ARG002 - it has none
        """Return the URL with its secrets masked."""
        return masked(secret)

    def deliver(self, message: Message) -> str:
        """Send a message, and return the name of the service. Raises Undelivered."""
        if message.channel is None:
            raise Undelivered("its channel is gone", final=True)
        try:
            service = service_of(unseal(message.channel.secret))
        except AddressRefused as error:
            raise Undelivered(str(error), final=True) from None
        except NoKey as error:
            raise Undelivered(str(error)) from None
        _notify(service, message)
        return f"accepted by {service.service_name}"


def _notify(service: Any, message: Message) -> None:
    """Make a service send a message, over the guarded network. Raises Undelivered."""
    import apprise

    with apprise.LogCapture(level=apprise.logging.WARNING) as log, guarded(TIMEOUT_S) as calls:
        accepted = service.notify(body=message.text[:LONGEST_TEXT], title=message.subject)
        words = " ".join(log.getvalue().split())
    if accepted:
        return
    if why := calls.obstacle:
        raise Undelivered(str(why), final=isinstance(why, AddressRefused))
    raise Undelivered(words or f"{service.service_name} refused it")


def service_of(url: str) -> Any:
    """Return Apprise's object for the service of a URL. Raises AddressRefused."""
    import apprise  # takes a second to import, and only this kind needs it

    asset = apprise.AppriseAsset(http_redirects=False, async_mode=False)
    parts = parts_of(url)
    service = apprise.Apprise.instantiate(parts, asset=asset, suppress_exceptions=True)
    if service is None:
        raise AddressRefused("expected a URL from the list at https://appriseit.com/services/")
    return service


def masked(url: str) -> str:
    """Return an Apprise URL with its secrets masked. Raises AddressRefused."""
    return str(service_of(url).url(privacy=True))
