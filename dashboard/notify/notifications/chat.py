"""Chat and paging services as a kind of channel, through the Apprise library."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from django.utils.http import urlencode

from dashboard.core.accounts.encryption import NoKey, unseal
from dashboard.core.common.outbound import (
    AddressRefused,
    Exchange,
    HttpReply,
    OutboundRequest,
    guarded,
)
from dashboard.notify.notifications.channels import ChannelKind, Undelivered
from dashboard.notify.notifications.models import Channel, Message
from dashboard.notify.notifications.outbox import BUTTON_LABELS

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


# ---- buttons -------------------------------------------------------------------------------------
# Buttons that open the links of a message. A chat is read by many, so they lead to pages behind the
# login, as the links in its text do, and no link of one recipient's own is among them.
#
# Apprise has no parameter by which all services take buttons, and most of its services build what
# they send within the method that sends it. So the buttons are added to the request as it leaves.

LONGEST_URL = 512
"""Length of the longest URL of a button that every service takes, in characters."""


Payload = dict[str, Any]
"""The JSON that a service is sent."""


class Button(NamedTuple):
    """A button that opens a link. label: of our own words, and short, so that no service needs it
    escaped or cut."""

    label: str
    url: str


Buttons = Sequence[Button]


def buttons_of(payload: Mapping[str, Any]) -> list[Button]:
    """Return the buttons of a message. payload: its JSON for programs."""
    buttons = (*_group_buttons(payload), *_incident_buttons(payload))
    return [button for button in buttons if len(button.url) <= LONGEST_URL]


def _group_buttons(payload: Mapping[str, Any]) -> Iterator[Button]:
    """Yield what opens a group's page while any of it goes on. Only incidents are acknowledged."""
    url = payload.get("group", {}).get("url")
    if not url:
        return
    if any(each["over_at"] is None for each in payload.get("incidents", ())):
        for act, label in BUTTON_LABELS.items():
            yield Button(label, f"{url}?{urlencode({'act': act})}")
    elif payload.get("active"):
        yield Button("Details", url)


def _incident_buttons(payload: Mapping[str, Any]) -> Iterator[Button]:
    """Yield what opens the page of the incident, if a message is about a single one."""
    if len(numbers := payload.get("numbers", {})) == 1:
        for number, case in numbers.items():
            yield Button(number, case["url"])


def _links(buttons: Buttons, **more: str) -> list[Payload]:
    return [{**more, "text": button.label, "url": button.url} for button in buttons]


def _discord(sent: Payload, buttons: Buttons) -> Payload | None:
    if not {"content", "embeds"} & sent.keys():
        return None
    # Of the types, 1 is a row and 2 a button; of the styles, 5 is a link.
    row = [{"type": 2, "style": 5, **button._asdict()} for button in buttons]
    return sent | {"components": [{"type": 1, "components": row}]}


def _google_chat(sent: Payload, buttons: Buttons) -> Payload | None:
    if "text" not in sent:
        return None
    links = [{"text": label, "onClick": {"openLink": {"url": url}}} for label, url in buttons]
    sections = [{"widgets": [{"buttonList": {"buttons": links}}]}]
    return sent | {"cardsV2": [{"cardId": "links", "card": {"sections": sections}}]}


def _ntfy(sent: Payload, buttons: Buttons) -> Payload | None:
    if "topic" not in sent:
        return None
    return sent | {"actions": [{"action": "view", **button._asdict()} for button in buttons]}


def _rocket_chat(sent: Payload, buttons: Buttons) -> Payload | None:
    if "text" not in sent:
        return None
    return sent | {"attachments": [{"actions": _links(buttons, type="button")}]}


def _slack(sent: Payload, buttons: Buttons) -> Payload | None:
    match sent:
        case {"attachments": [{"blocks": [*blocks]} as first]}:
            row = [
                {"type": "button", "text": {"type": "plain_text", "text": label}, "url": url}
                for label, url in buttons
            ]
            changed = {"blocks": [*blocks, {"type": "actions", "elements": row}]}
        case {"attachments": [{"text": str()} as first]}:
            # Unlike buttons in blocks these ask no app for an answer when somebody presses them.
            changed = {"actions": _links(buttons, type="button")}
        case _:
            return None
    return sent | {"attachments": [first | changed]}


def _teams(sent: Payload, buttons: Buttons) -> Payload | None:
    match sent:
        case {"attachments": [{"content": {"type": "AdaptiveCard"} as card} as first]}:
            links = [
                {"type": "Action.OpenUrl", "title": label, "url": url} for label, url in buttons
            ]
            return sent | {"attachments": [first | {"content": card | {"actions": links}}]}
    return None


def _telegram(sent: Payload, buttons: Buttons) -> Payload | None:
    if not {"chat_id", "text"} <= sent.keys():
        return None
    return sent | {"reply_markup": {"inline_keyboard": [[link] for link in _links(buttons)]}}


BUTTON_FORMATS: Mapping[str, Callable[[Payload, Buttons], Payload | None]] = {
    "discord": _discord,
    "gchat": _google_chat,
    "ntfy": _ntfy,
    "rocket": _rocket_chat,
    "slack": _slack,
    "tgram": _telegram,
    "workflow": _teams,
}
"""What returns a payload with buttons, by URL schema of the service; None for a payload that is no
message, or of an unexpected shape. A service that is not listed has no buttons for links."""
BUTTON_QUERIES = {"discord": "with_components=true"}
"""What the URL of a request needs, or the service ignores its buttons."""
NOT_FOR_BUTTONS = (401, 403, 404, 410)
"""Statuses that refuse a sender or an address, whatever is sent."""


class ButtonRelay:
    """Sends the requests of a service, its messages with buttons.

    No message is lost for a button: what is of another shape is sent as it is, and what is refused
    with buttons is sent again without. refused: whether that was so.
    """

    def __init__(self, service: Any, buttons: Buttons) -> None:
        self.refused = False
        self._buttons = buttons
        self._schema = next((each for each in BUTTON_FORMATS if each in service.schemas()), "")

    def __call__(self, request: OutboundRequest, send: Exchange) -> HttpReply:
        """Return the response to a request. Raises OutboundUnreachable."""
        changed = self._with_buttons(request)
        if changed is None:
            return send(request)
        reply = send(changed)
        if not _is_refusal(reply):
            return reply
        self.refused = True
        return send(request)

    def _with_buttons(self, request: OutboundRequest) -> OutboundRequest | None:
        """Return a request with buttons; None if it is none that can have them."""
        if not (self._schema and self._buttons):
            return None
        try:
            sent = json.loads(request.body or b"")
        except ValueError:
            return None
        add = BUTTON_FORMATS[self._schema]
        changed = add(sent, self._buttons) if isinstance(sent, dict) else None
        if changed is None:
            return None
        url = _with_query(request.url, BUTTON_QUERIES.get(self._schema, ""))
        return request.with_body(json.dumps(changed).encode())._replace(url=url)


def _with_query(url: str, query: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}{query}" if query else url


def _is_refusal(reply: HttpReply) -> bool:
    """Return whether a request was refused for what is in it; Slack says so with status 200."""
    if reply.status >= 400:
        return reply.status not in NOT_FOR_BUTTONS
    try:
        return json.loads(reply.content)["ok"] is False
    except (ValueError, TypeError, LookupError):
        return False


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
        """Send a message, and return what the service did with it. Raises Undelivered."""
        if message.channel is None:
            raise Undelivered("its channel is gone", final=True)
        try:
            service = service_of(unseal(message.channel.secret))
        except AddressRefused as error:
            raise Undelivered(str(error), final=True) from None
        except NoKey as error:
            raise Undelivered(str(error)) from None
        return _notify(service, message)


def _notify(service: Any, message: Message) -> str:
    """Make a service send a message, over the guarded network, and return what it did.

    Raises Undelivered.
    """
    import apprise

    relay = ButtonRelay(service, buttons_of(message.payload))
    with (
        apprise.LogCapture(level=apprise.logging.WARNING) as log,
        guarded(TIMEOUT_S, relay) as calls,
    ):
        accepted = service.notify(body=message.text[:LONGEST_TEXT], title=message.subject)
        words = " ".join(log.getvalue().split())
    if accepted:
        without = ", which refused the buttons" if relay.refused else ""
        return f"accepted by {service.service_name}{without}"
    if why := calls.obstacle:
        refused = isinstance(why, AddressRefused)
        raise Undelivered(str(why), final=refused, unreachable=not refused)
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
