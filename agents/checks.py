"""Checks of targets over HTTP and TCP, as described in probes.toml."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from domain.config_values import ConfigTable, PlainError, duration, read_toml, whole
from domain.names import name_ok

# Longest error text in a report, in code points.
MAX_ERROR = 200

_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_TCP, _HTTP = "tcp", "http"
UP, DEGRADED, DOWN = "up", "degraded", "down"


class ProbesError(ValueError):
    """A probes file that cannot be used: names the file, the key, and what was expected."""


@dataclass(frozen=True, slots=True)
class CheckTarget:
    """What to check and how. Times are in ms. `url` is for HTTP; `host` and `port` are for TCP.

    grace: how long after its start a probe does not report a target that is not up yet.
    """

    name: str
    kind: str
    interval: int
    timeout: int
    degraded: int
    url: str = ""
    host: str = ""
    port: int = 0
    expect_status: tuple[int, ...] = (200,)
    grace: int = 0


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check: up, degraded or down, with latency (ms) or error."""

    state: str
    detail: dict[str, Any]


def load_targets(path: Path, variables: Mapping[str, str]) -> list[CheckTarget]:
    """Return the targets in a probes file, with `${NAME}` replaced from `variables`.

    Raises ProbesError.
    """
    data = read_toml(path, ProbesError)
    try:
        return _targets(data, variables)
    except PlainError as error:
        raise ProbesError(f"{path.name}: {error}") from error


def _targets(data: dict[str, Any], variables: Mapping[str, str]) -> list[CheckTarget]:
    for key in data:
        if key != "target":
            raise PlainError(key, "[[target]] tables alone", key)
    entries = data.get("target")
    if not isinstance(entries, list) or not entries:
        raise PlainError("target", "at least one [[target]] table", entries)
    targets: list[CheckTarget] = []
    for at, entry in enumerate(entries):
        target = _target(
            ConfigTable(_substituted(entry, f"target[{at}]", variables), f"target[{at}]")
        )
        if target.name in {other.name for other in targets}:
            raise PlainError(f"target[{at}].name", "a name that no other target has", target.name)
        targets.append(target)
    return targets


def _substituted(entry: object, path: str, variables: Mapping[str, str]) -> object:
    """Return the table with `${NAME}` replaced in its texts.

    Raises PlainError for unknown names.
    """
    if not isinstance(entry, dict):
        return entry

    def replace(key: str, value: object) -> object:
        def one(match: re.Match[str]) -> str:
            if match[1] not in variables:
                raise PlainError(
                    f"{path}.{key}", f"${{}} with one of {', '.join(variables)}", value
                )
            return variables[match[1]]

        return _VARIABLE.sub(one, value) if isinstance(value, str) else value

    return {key: replace(key, value) for key, value in entry.items()}


def _target(table: ConfigTable) -> CheckTarget:
    kind = table.choice("kind", (_HTTP, _TCP))
    common: dict[str, Any] = {
        "name": _name(table),
        "kind": kind,
        "interval": _duration(table, "interval", "5s"),
        "timeout": _duration(table, "timeout", "2s"),
        "degraded": table.integer("degraded_ms", 1000, 1, 600_000),
        "grace": _duration(table, "grace", "0s", zero=True),
    }
    if kind == _HTTP:
        common |= {"url": _url(table), "expect_status": _statuses(table)}
    else:
        common |= {"host": table.text("host"), "port": _port(table)}
    table.no_more()
    return CheckTarget(**common)


def _name(table: ConfigTable) -> str:
    name = table.text("name")
    if not name_ok(name):
        raise PlainError(f"{table.path}.name", "an asset's name without control characters", name)
    return name


def _duration(table: ConfigTable, key: str, default: str, *, zero: bool = False) -> int:
    value = table.get(key)
    return duration(default if value is None else value, f"{table.path}.{key}", zero)


def _url(table: ConfigTable) -> str:
    value = table.text("url")
    try:
        url = httpx.URL(value)
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in ("http", "https") or not url.host:
        raise PlainError(f"{table.path}.url", "an address such as http://host:port/path", value)
    return value


def _port(table: ConfigTable) -> int:
    value = table.get("port")
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    return whole(1, 65_535)(number, f"{table.path}.port")


def _statuses(table: ConfigTable) -> tuple[int, ...]:
    value, path = table.get("expect_status"), f"{table.path}.expect_status"
    if value is None:
        return (200,)
    if not isinstance(value, list) or not value:
        raise PlainError(path, "a list of HTTP status codes", value)
    return tuple(whole(100, 599)(status, f"{path}[{at}]") for at, status in enumerate(value))


def check(target: CheckTarget, clock_s: Callable[[], float] = time.monotonic) -> CheckResult:
    """Check a target once, in little more than its timeout. Never raises because of the result."""
    with _client(target) as client:  # creating it takes time that is not the target's
        started, fault = clock_s(), None
        try:
            if client is None:
                _connect(target)
            else:
                fault = _http(client, target)
        except (OSError, httpx.HTTPError) as error:
            fault = str(error) or type(error).__name__
        latency = round((clock_s() - started) * 1000)
    if fault is None and latency > target.timeout:
        fault = f"no answer within {target.timeout} ms"
    if fault is not None:
        return CheckResult(DOWN, {"error": fault[:MAX_ERROR]})
    return CheckResult(DEGRADED if latency > target.degraded else UP, {"latency_ms": latency})


def _client(target: CheckTarget) -> AbstractContextManager[httpx.Client | None]:
    """Return the HTTP client for a target, or None for TCP."""
    if target.kind != _HTTP:
        return nullcontext()
    return httpx.Client(timeout=target.timeout / 1000, trust_env=False)


def _http(client: httpx.Client, target: CheckTarget) -> str | None:
    """Return what is wrong with the answer, or None. Reads only the headers."""
    with client.stream("GET", target.url) as response:
        if response.status_code in target.expect_status:
            return None
        expected = ", ".join(map(str, target.expect_status))
        return f"status {response.status_code}, expected {expected}"


def _connect(target: CheckTarget) -> None:
    """Open and close a TCP connection. Raises OSError."""
    socket.create_connection((target.host, target.port), target.timeout / 1000).close()
