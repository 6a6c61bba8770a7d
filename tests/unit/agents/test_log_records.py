"""A log record as JSON: whatever a program puts into it."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest
import structlog

from agents.log_records import MOST_BYTES, check_fields, encode

ENDLESS: dict[str, object] = {}
ENDLESS["x"] = ENDLESS


class Mute:
    """A value that cannot even be described."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


def record(message: object = "hello", *arguments: object, **extra: Any) -> logging.LogRecord:
    made = logging.LogRecord("shop.cart", logging.WARNING, "cart.py", 7, message, arguments, None)
    made.created = 1_790_000_000.1234
    vars(made).update(extra)
    return made


def plain(made: logging.LogRecord, **fields: object) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(encode(made, fields).value)
    return value


def test_a_record_has_its_time_level_logger_message_fields_and_extra() -> None:
    made = record("%s items", 3, client="client-1", action="login", tags=["a", None])
    assert plain(made, app_name="shop", app_version="1.2") == {
        "time": 1_790_000_000_123,
        "level": "warning",
        "logger": "shop.cart",
        "message": "3 items",
        "app_name": "shop",
        "app_version": "1.2",
        "client": "client-1",
        "action": "login",
        "tags": ["a", None],
    }


def test_an_extra_takes_nobody_elses_name() -> None:
    made = plain(record(time="now", app_name="mine", level=3), app_name="shop")
    assert (made["time"], made["app_name"], made["level"]) == (1_790_000_000_123, "shop", "warning")
    assert (made["extra_time"], made["extra_app_name"], made["extra_level"]) == ("now", "mine", 3)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (object, "<class 'object'>"),
        ({1}, "{1}"),
        (float("nan"), "nan"),
        (b"\xff", "b'\\xff'"),
        ({("a", "b"): 1}, "{('a', 'b'): 1}"),
        (ENDLESS, "{'x': {...}}"),
        (Mute(), "<Mute>"),
        ([Mute()], "<list>"),
        ("\ud800!", "?!"),
        (10**400, 10**400),
    ],
)
def test_what_json_has_no_word_for_is_described(value: object, shown: object) -> None:
    made = plain(record(odd=value, other=1))
    assert (made["odd"], made["other"], made["message"]) == (shown, 1, "hello")


def test_a_value_too_deep_for_json_is_described() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    made = plain(record(odd=deep))
    assert made["odd"] == "<list>"


@pytest.mark.parametrize(
    ("message", "arguments", "shown"),
    [
        ("%s and %s", ("one",), "%s and %s ('one',)"),
        ("%d", ("x",), "%d ('x',)"),
        (Mute(), (), "<Mute> ()"),
        ("%s", (Mute(),), "%s <tuple>"),
        (ValueError("bad"), (), "bad"),
        ("50 %", (), "50 %"),
    ],
)
def test_a_message_that_cannot_be_formed_is_kept_as_it_is(
    message: object, arguments: tuple[object, ...], shown: str
) -> None:
    assert plain(record(message, *arguments))["message"] == shown


def test_an_exception_and_a_stack_are_texts() -> None:
    made = record()
    try:
        int("bad")
    except ValueError:
        made.exc_info = sys.exc_info()
    made.stack_info = "Stack (most recent call last): ..."
    shown = plain(made)
    assert shown["exception"].startswith("Traceback (most recent call last):")
    assert shown["exception"].endswith("with base 10: 'bad'")
    assert shown["stack"] == made.stack_info
    assert "exc_info" not in shown


def test_a_huge_record_is_cut_and_says_so() -> None:
    encoded = encode(record("m" * 100_000, body="é" * 100_000, few=[1], big=[1] * 99_999), {})
    shown = json.loads(encoded.value)
    assert encoded.cut
    assert len(encoded.value) <= MOST_BYTES
    assert shown["truncated"] is True
    assert shown["message"].endswith("m… (100000 characters)")
    assert shown["body"].endswith("é… (100000 characters)")
    assert shown["few"] == [1]
    assert shown["big"].startswith("[1, 1, 1")


def test_a_record_of_too_many_extras_keeps_what_every_record_has() -> None:
    many = {f"name{number}": "x" * 1_000 for number in range(1_000)}
    encoded = encode(record(**many), {"app_name": "shop"})
    assert encoded.cut
    assert json.loads(encoded.value) == {
        "time": 1_790_000_000_123,
        "level": "warning",
        "logger": "shop.cart",
        "message": "hello",
        "app_name": "shop",
        "truncated": True,
    }


def test_one_just_small_enough_is_whole() -> None:
    rest = MOST_BYTES - len(encode(record(x=""), {}).value)
    assert not encode(record(x="x" * rest), {}).cut
    assert encode(record(x="x" * (rest + 1)), {}).cut


def test_a_record_of_structlog_is_its_event_and_its_keys() -> None:
    logger, caught = logging.getLogger("test.structlog"), []
    logger.addFilter(lambda made: caught.append(made) or False)  # type: ignore[func-returns-value]
    bound = structlog.wrap_logger(
        logger,
        processors=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    try:
        int("bad")
    except ValueError:
        bound.exception("refused", client="client-1", action="login")
    shown = plain(caught[0])
    assert (shown["message"], shown["client"], shown["action"]) == ("refused", "client-1", "login")
    assert shown["exception"].endswith("with base 10: 'bad'")
    assert set(shown) == {"time", "level", "logger", "message", "exception", "client", "action"}


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"level": "x"}, "expected other names than level"),
        ({"a": object()}, "expected what JSON can say"),
        ({"a": "x" * 5_000}, "expected 4000 characters or fewer"),
    ],
)
def test_fields_are_checked(fields: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        check_fields(fields)
