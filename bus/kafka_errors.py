"""Convert librdkafka's errors into errors of the bus."""

# librdkafka's own error codes begin with an underscore.
# ruff: noqa: SLF001

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import confluent_kafka as ck

from bus.base import AccessRefused, BusError, LoginRefused, NotPermitted, TooLarge, Unavailable

log = logging.getLogger("bus.kafka")

_COMPLAIN_EVERY_S = 30.0
# How long to wait after a refusal before trying again, s.
REFUSED_S = 2.0
_PASSING = {
    ck.KafkaError._TRANSPORT,
    ck.KafkaError._ALL_BROKERS_DOWN,
    ck.KafkaError._TIMED_OUT,
    ck.KafkaError._TIMED_OUT_QUEUE,
    ck.KafkaError._MSG_TIMED_OUT,
    ck.KafkaError._RESOLVE,
    ck.KafkaError._PURGE_QUEUE,
    ck.KafkaError._PURGE_INFLIGHT,
    ck.KafkaError._FATAL,
    ck.KafkaError.REQUEST_TIMED_OUT,
    ck.KafkaError.COORDINATOR_NOT_AVAILABLE,
    ck.KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    ck.KafkaError.NOT_COORDINATOR,
    ck.KafkaError.NOT_CONTROLLER,
}
# Right after a topic was created or has moved: what client and broker know of its leader differs.
_LEADER = {
    ck.KafkaError.NOT_LEADER_FOR_PARTITION,
    ck.KafkaError.LEADER_NOT_AVAILABLE,
    ck.KafkaError.FENCED_LEADER_EPOCH,
    ck.KafkaError.UNKNOWN_LEADER_EPOCH,
    ck.KafkaError.OFFSET_NOT_AVAILABLE,
}
# The kind of resource for which a right is missing, by error.
_WITHOUT_RIGHT = {
    ck.KafkaError.TOPIC_AUTHORIZATION_FAILED: "topic",
    ck.KafkaError.GROUP_AUTHORIZATION_FAILED: "group",
    ck.KafkaError.CLUSTER_AUTHORIZATION_FAILED: "cluster",
    ck.KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional id",
}
_USER, _PASSWORD = "TALLYBOARD_KAFKA_USERNAME", "TALLYBOARD_KAFKA_PASSWORD"
_MECHANISM, _PROTOCOL = "TALLYBOARD_KAFKA_SASL_MECHANISM", "TALLYBOARD_KAFKA_SECURITY_PROTOCOL"
_LOGIN = {
    ck.KafkaError._AUTHENTICATION: f"{_USER} and {_PASSWORD}",
    ck.KafkaError.SASL_AUTHENTICATION_FAILED: f"{_USER} and {_PASSWORD}",
    ck.KafkaError.UNSUPPORTED_SASL_MECHANISM: _MECHANISM,
    ck.KafkaError.ILLEGAL_SASL_STATE: _PROTOCOL,
    ck.KafkaError._SSL: f"{_PROTOCOL} and TALLYBOARD_KAFKA_CA_FILE",
}
# A broker that disconnects during a login has not refused it.
_BROKEN_OFF = re.compile(r"Local: |[Dd]isconnected|timed out")
# Text around a broker's message: which broker it is, and when it answered.
_AROUND = re.compile(r"^\w+://\S+: | \(after .*$")


class LeaderUnknown(Unavailable):
    """A partition's leader has just changed: the same request is answered in a moment."""


def bus_error(error: ck.KafkaError, on: str = "", right: str = "") -> BusError:
    """Return librdkafka's error as one of ours.

    on: the topic or group of the request; right: the right that it needs, by Kafka's name.
    """
    code, words = error.code(), f"{error.name()}: {error.str()}"
    if code in _WITHOUT_RIGHT:
        return _not_permitted(error, on, right)
    if (refusal := login_refusal(error)) is not None:
        return refusal
    if code == ck.KafkaError.MSG_SIZE_TOO_LARGE:
        return TooLarge(words)
    if code in _LEADER:
        return LeaderUnknown(words)
    if code in _PASSING or error.retriable() or error.fatal():
        return Unavailable(words)
    return BusError(words)


def _not_permitted(error: ck.KafkaError, on: str, right: str) -> NotPermitted:
    if error.code() == ck.KafkaError.CLUSTER_AUTHORIZATION_FAILED:  # also for who may write nowhere
        on, right = "", "IDEMPOTENT_WRITE"
    place = f"the {_WITHOUT_RIGHT[error.code()]}{'s' * (', ' in on)} {on}".rstrip()
    needed = f"needs the right {right} on {place}" if right else f"lacks a right on {place}"
    return NotPermitted(f"Kafka refuses {place} ({error.name()}): the user of {_USER} {needed}")


def login_refusal(error: ck.KafkaError) -> LoginRefused | None:
    """Return a connection error as a refused login, or None if it is something else."""
    said = error.str()
    if error.code() not in _LOGIN or _BROKEN_OFF.search(said):
        return None
    setting = _MECHANISM if "mechanism" in said.lower() else _LOGIN[error.code()]
    return LoginRefused(f"Kafka refuses the login ({_AROUND.sub('', said)}): check {setting}")


def raised(error: ck.KafkaException, on: str = "", right: str = "") -> BusError:
    """Return an exception raised by librdkafka as one of ours. on, right: as in `bus_error`."""
    return bus_error(error.args[0], on, right)


class Login:
    """Whether brokers accept the login of one client, as reported to its error callback.

    librdkafka keeps trying, and reports only a lost broker or a timeout to its caller.
    """

    def __init__(self) -> None:
        self.refusal: LoginRefused | None = None
        """Why the login is refused, or None if no refusal is known."""
        self._said = ""
        self._complain = complaint()

    def on_error(self, error: ck.KafkaError) -> None:
        """Handle a connection error; set this as librdkafka's `error_cb`."""
        refusal = login_refusal(error)
        if refusal is None:
            if self.refusal is None:  # otherwise that is why no broker is left
                self._complain(error)
            return
        if str(refusal) != self._said:  # once, until the login is accepted
            log.error("%s", refusal)
            self._said = str(refusal)
        self.refusal = refusal

    def taken(self) -> None:
        """Record that a broker has answered."""
        self.refusal, self._said = None, ""

    def check(self) -> None:
        """Raise a refusal received since the last call. For callers that see no successes."""
        refusal, self.refusal = self.refusal, None
        if refusal is not None:
            raise refusal

    def tried_anew(self) -> None:
        """Reset for a new connection, about which nothing is known yet."""
        self.refusal = None

    def cause(self, error: BusError) -> BusError:
        """Return the refused login if it caused the error, else the error."""
        return self.refusal if self.refusal is not None and _is_unexplained(error) else error


def _is_unexplained(error: BusError) -> bool:
    """Return whether an error says that nobody answers, without saying why."""
    return isinstance(error, Unavailable) and not isinstance(error, AccessRefused)


def refused(code: int, on: str = "", right: str = "") -> BusError:
    """Return the error for Kafka's error number. on, right: as in `bus_error`."""
    return bus_error(ck.KafkaError(code), on, right)


class ProducerRefusals:
    """Why Kafka rejects a producer: its login, or a missing right to write."""

    def __init__(self) -> None:
        self.login = Login()
        self._right: NotPermitted | None = None
        self._pause_over = 0.0
        self._said: set[str] = set()

    def of_next(self) -> ProducerRefusals:
        """Return the refusals for the producer that replaces this one, initially none."""
        made = ProducerRefusals()
        made._said, made._pause_over = self._said, self._pause_over
        return made

    def fatal(self, error: BusError) -> None:
        """Record the error that has ended librdkafka's producer."""
        if isinstance(error, NotPermitted):
            self._log_once(error)
            self._right = error

    def _log_once(self, error: NotPermitted) -> None:
        """Log a refusal once, because some senders have nobody to report it to."""
        if str(error) not in self._said:
            self._said.add(str(error))
            log.error("%s", error)

    def taken(self) -> None:
        """Record that a broker has accepted a record."""
        self.login.taken()
        self._right = None

    def cause(self, error: BusError) -> BusError:
        """Return the refusal if it caused the delivery error, else the error."""
        if isinstance(error, NotPermitted):
            self._log_once(error)
        if self._right is not None and _is_unexplained(error):
            return self._right
        return self.login.cause(error)

    def pause(self) -> BusError | None:
        """Return why no new producer may be opened yet, or None if one may."""
        now = time.monotonic()
        if self._right is not None and now < self._pause_over:
            return self._right
        self._pause_over = now + REFUSED_S
        return None


def complaint() -> Callable[[ck.KafkaError], None]:
    """Return a callback that logs a connection error at most every 30 s.

    librdkafka recovers from these errors by itself.
    """
    quiet_until = 0.0

    def complain(error: ck.KafkaError) -> None:
        nonlocal quiet_until
        if time.monotonic() >= quiet_until:
            quiet_until = time.monotonic() + _COMPLAIN_EVERY_S
            log.warning("kafka: %s; it goes on by itself", error.str())

    return complain


def result(future: Future[Any], timeout_s: float, on: str = "", right: str = "") -> Any:
    """Return the answer to an admin request. on, right: as in `bus_error`. Raises BusError."""
    try:
        return future.result(timeout_s + 1)
    except ck.KafkaException as error:
        raise raised(error, on, right) from error
    except TimeoutError as error:
        raise Unavailable(f"no answer from Kafka within {timeout_s:g} s") from error
