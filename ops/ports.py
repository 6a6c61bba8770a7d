"""Find free TCP ports, and explain when one is not free."""

from __future__ import annotations

import errno
import socket


class PortProblem(Exception):
    """A port cannot be used; the message names the setting to change."""


def free_port(host: str = "127.0.0.1") -> int:
    """Return a TCP port that nothing listens on at the moment."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def require_free(host: str, port: int, setting: str) -> None:
    """Raise PortProblem, naming `setting`, if it is not possible to listen on `host:port`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host.strip("[]"), port))
        except OSError as error:
            raise PortProblem(_why(error, host, port, setting)) from None


def _why(error: OSError, host: str, port: int, setting: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} is taken: stop what listens there, or set {setting} to a free port."
    return f"Cannot listen on {host}:{port} ({error.strerror}): set {setting} to another port."
