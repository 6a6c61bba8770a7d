"""The services of Apprise that a channel may name, and the parameters that its URL may have."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from dashboard.core.outbound import Refused

EVERYWHERE = ("format", "overflow")
"""Parameters that the URL of each service may have."""
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
"""Parameters by a schema of the service: none that names an address or a file to be read, sets how
long is waited, or switches the verification of certificates off."""


class Service(NamedTuple):
    """A service that a channel may name. beginnings: of its URLs; parameters: in order."""

    name: str
    beginnings: tuple[str, ...]
    parameters: tuple[str, ...]


@lru_cache(maxsize=1)
def services() -> Mapping[type, Service]:
    """Return the allowed services by Apprise's class of each."""
    from apprise.plugins import N_MGR  # takes a second, and is needed for this kind alone

    return {N_MGR[schema]: _service(N_MGR[schema], names) for schema, names in ALLOWED.items()}


def _service(plugin: Any, names: tuple[str, ...]) -> Service:
    schemas: list[str] = []
    for schema in (plugin.protocol, plugin.secure_protocol):
        schemas += [schema] if isinstance(schema, str) else (schema or ())
    known = tuple(dict.fromkeys(f"{schema}://" for schema in schemas))
    return Service(str(plugin.service_name), known, tuple(sorted((*names, *EVERYWHERE))))


def parts_of(url: str) -> dict[str, Any]:
    """Return the parts of an Apprise URL, as Apprise reads it. Raises Refused for another service,
    or another parameter, than those allowed; the message holds nothing secret."""
    from apprise.plugins import N_MGR, url_to_dict

    try:
        parts: dict[str, Any] | None = url_to_dict(url)
    except (TypeError, ValueError, LookupError, AttributeError):  # of what is no URL
        parts = None
    if not parts:
        raise Refused("expected a URL as https://appriseit.com/services/ lists them")
    plugin = N_MGR[parts["schema"]]
    service = services().get(plugin)
    if service is None:
        raise Refused(f"expected one of the allowed services, and {parts['schema']} is none")
    if others := set(parts["qsd"]) - {*service.parameters, ""}:
        # A key that was pasted in a wrong place comes as a parameter too, and must not be shown.
        named = sorted(others & set(plugin.template_args)) or ["an unknown one"]
        allowed = ", ".join(service.parameters)
        raise Refused(
            f"expected no parameters of {service.name} but {allowed}; got {', '.join(named)}"
        )
    return parts
