"""What librdkafka says went wrong, as errors of the bus."""

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
# How long nobody is asked again who has refused.
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
    ck.KafkaError.NOT_LEADER_FOR_PARTITION,  # right after a topic was made, or has moved
    ck.KafkaError.LEADER_NOT_AVAILABLE,
    # The client's word of who leads is older or newer than the broker's: one of them learns soon.
    ck.KafkaError.FENCED_LEADER_EPOCH,
    ck.KafkaError.UNKNOWN_LEADER_EPOCH,
    ck.KafkaError.OFFSET_NOT_AVAILABLE,
}
# What a right is missing on, by the error.
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
# A broker that goes away while somebody logs in has refused nobody.
_BROKEN_OFF = re.compile(r"Local: |[Dd]isconnected|timed out")
# Around what a broker says: which one it is, and when it said so.
_AROUND = re.compile(r"^\w+://\S+: | \(after .*$")


def bus_error(error: ck.KafkaError, on: str = "", right: str = "") -> BusError:
    """Return librdkafka's error as one of ours.

    on: the topic or group that was asked for; right: the one that this needs, by Kafka's name.
    """
    code, words = error.code(), f"{error.name()}: {error.str()}"
    if code in _WITHOUT_RIGHT:
        return _not_permitted(error, on, right)
    if (refusal := login_refusal(error)) is not None:
        return refusal
    if code == ck.KafkaError.MSG_SIZE_TOO_LARGE:
        return TooLarge(words)
    if code in _PASSING or error.retriable() or error.fatal():
        return Unavailable(words)
    return BusError(words)


def _not_permitted(error: ck.KafkaError, on: str, right: str) -> NotPermitted:
    if error.code() == ck.KafkaError.CLUSTER_AUTHORIZATION_FAILED:  # as of who may write nowhere
        on, right = "", "IDEMPOTENT_WRITE"
    place = f"the {_WITHOUT_RIGHT[error.code()]}{'s' * (', ' in on)} {on}".rstrip()
    needed = f"needs the right {right} on {place}" if right else f"lacks a right on {place}"
    return NotPermitted(f"Kafka refuses {place} ({error.name()}): the user of {_USER} {needed}")


def login_refusal(error: ck.KafkaError) -> LoginRefused | None:
    """Return an error of a connection as a refused login, None where it is none."""
    said = error.str()
    if error.code() not in _LOGIN or _BROKEN_OFF.search(said):
        return None
    setting = _MECHANISM if "mechanism" in said.lower() else _LOGIN[error.code()]
    return LoginRefused(f"Kafka refuses the login ({_AROUND.sub('', said)}): check {setting}")


def raised(error: ck.KafkaException, on: str = "", right: str = "") -> BusError:
    """Return the exception that librdkafka raised, as one of ours. on, right: as in `bus_error`."""
    return bus_error(error.args[0], on, right)


class Login:
    """Whether brokers take the login of one client, as its error callback hears.

    librdkafka goes on trying, and tells its caller of nothing but a lost broker or a timeout.
    """

    def __init__(self) -> None:
        self.refusal: LoginRefused | None = None
        """Why it is refused; None while nothing is known against it."""
        self._said = ""
        self._complain = complaint()

    def on_error(self, error: ck.KafkaError) -> None:
        """Log an error of the connection: librdkafka's `error_cb`."""
        refusal = login_refusal(error)
        if refusal is None:
            if self.refusal is None:  # else that is why no broker is left
                self._complain(error)
            return
        if str(refusal) != self._said:  # once, until the login is taken
            log.error("%s", refusal)
            self._said = str(refusal)
        self.refusal = refusal

    def taken(self) -> None:
        """Note that a broker has answered."""
        self.refusal, self._said = None, ""

    def check(self) -> None:
        """Raise what was heard since the last call. For who hears of no success."""
        refusal, self.refusal = self.refusal, None
        if refusal is not None:
            raise refusal

    def tried_anew(self) -> None:
        """Note that a new connection is tried, of which nothing is known."""
        self.refusal = None

    def cause(self, error: BusError) -> BusError:
        """Return the refused login where one is behind an error, else the error."""
        return self.refusal if self.refusal is not None and _is_unexplained(error) else error


def _is_unexplained(error: BusError) -> bool:
    """Return whether an error says that nobody answers, and not why."""
    return isinstance(error, Unavailable) and not isinstance(error, AccessRefused)


def refused(code: int, on: str = "", right: str = "") -> BusError:
    """Return what a broker answered by Kafka's number of an error. on, right: as in `bus_error`."""
    return bus_error(ck.KafkaError(code), on, right)


class ProducerRefusals:
    """Why Kafka takes nothing of a producer: its login, or a right that it needs to write."""

    def __init__(self) -> None:
        self.login = Login()
        self._right: NotPermitted | None = None
        self._pause_over = 0.0
        self._said: set[str] = set()

    def of_next(self) -> ProducerRefusals:
        """Return those of the producer that replaces this one: nothing is refused it yet."""
        made = ProducerRefusals()
        made._said, made._pause_over = self._said, self._pause_over
        return made

    def fatal(self, error: BusError) -> None:
        """Note what has ended librdkafka's producer."""
        if isinstance(error, NotPermitted):
            self._log_once(error)
            self._right = error

    def _log_once(self, error: NotPermitted) -> None:
        """Log a refusal, once: some senders have nobody to tell."""
        if str(error) not in self._said:
            self._said.add(str(error))
            log.error("%s", error)

    def taken(self) -> None:
        """Note that a broker has taken a record."""
        self.login.taken()
        self._right = None

    def cause(self, error: BusError) -> BusError:
        """Return the refusal where one is behind an error of a delivery, else the error."""
        if isinstance(error, NotPermitted):
            self._log_once(error)
        if self._right is not None and _is_unexplained(error):
            return self._right
        return self.login.cause(error)

    def pause(self) -> BusError | None:
        """Return why no further producer is opened just now, None where it is time for one."""
        now = time.monotonic()
        if self._right is not None and now < self._pause_over:
            return self._right
        self._pause_over = now + REFUSED_S
        return None


def complaint() -> Callable[[ck.KafkaError], None]:
    """Return a callback that logs a connection error now and then.

    librdkafka recovers from them by itself.
    """
    quiet_until = 0.0

    def complain(error: ck.KafkaError) -> None:
        nonlocal quiet_until
        if time.monotonic() >= quiet_until:
            quiet_until = time.monotonic() + _COMPLAIN_EVERY_S
            log.warning("kafka: %s; it goes on by itself", error.str())

    return complain


def result(future: Future[Any], timeout_s: float, on: str = "", right: str = "") -> Any:
    """Return what an admin request answered. on, right: as in `bus_error`. Raises BusError."""
    try:
        return future.result(timeout_s + 1)
    except ck.KafkaException as error:
        raise raised(error, on, right) from error
    except TimeoutError as error:
        raise Unavailable(f"no answer from Kafka within {timeout_s:g} s") from error
