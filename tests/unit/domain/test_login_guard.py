"""The login guard's operator, played without Spark: what it keeps, and what time brings about."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from domain.login_windows import CHALLENGE_MS, LATE_MS, VERIFIED_MS, WINDOW_MS
from pipelines.login_guard import LoginGuard

NAME = "client-0123456789abcdef"
# The client's clock, and the processing time: a log that is read a day later.
THEN, NOW = 1_790_000_000_000, 1_790_086_400_000


class Played:
    """The operator, and the offsets of the records that it is given."""

    def __init__(self) -> None:
        self._tester = TwsTester(LoginGuard(), timeMode="ProcessingTime", outputMode="Update")
        self._tester.setProcessingTime(NOW)
        self._offset = 0

    def read(self, *times: int, verified: bool = False) -> list[Row]:
        """A batch of records of these times."""
        return self.read_rows([self.row(time, verified=verified) for time in times])

    def row(self, time: int, *, verified: bool = False) -> Row:
        self._offset += 1
        return Row(
            client=NAME, verified=verified, time=THEN + time, partition=0, offset=self._offset
        )

    def read_rows(self, rows: list[Row]) -> list[Row]:
        return self._tester.test(NAME, rows)

    def wait(self, until: int) -> list[Row]:
        """What comes out by processing time alone."""
        return self._tester.setProcessingTime(NOW + until)

    @property
    def kept(self) -> Any:
        return self._tester.peekValueState("client", NAME)


@pytest.fixture
def played() -> Played:
    return Played()


def states(rows: list[Row]) -> list[tuple[str, int]]:
    """State and time of each report, since THEN."""
    return [(row["state"], row["at"] - THEN) for row in rows]


def test_what_it_remembers_goes_from_batch_to_batch(played: Played) -> None:
    assert played.read(0, 500) == []
    assert played.read(1_000, 1_500) == []
    [report] = played.read(2_900)
    assert states([report]) == [("challenge", 2_900)]
    assert max(count for _, _, count in report["windows"]) == 5
    assert (report["client"], report["verified_until"], report["late"]) == (NAME, None, 0)


def test_records_are_taken_in_the_order_of_the_log(played: Played) -> None:
    newest, *others = (played.row(time) for time in (LATE_MS + 1, 0, 0))
    assert played.read_rows([*others, newest]) == [
        Row(client=NAME, state=None, at=None, windows=None, verified_until=None, late=2)
    ]


def test_a_challenge_ends_after_an_hour_of_processing_time_and_is_forgotten(
    played: Played,
) -> None:
    played.read(*[0] * 5)
    assert played.wait(CHALLENGE_MS - 1) == []
    assert states(played.wait(CHALLENGE_MS)) == [("quiet", CHALLENGE_MS)]
    assert played.kept is None
    assert played.wait(9 * CHALLENGE_MS) == []


def test_whoever_acts_meanwhile_is_looked_at_later(played: Played) -> None:
    played.read(*[0] * 5)
    played.wait(CHALLENGE_MS - 1_000)
    played.read(CHALLENGE_MS - 1_000)
    assert played.wait(CHALLENGE_MS) == []
    assert states(played.wait(2 * CHALLENGE_MS)) == [("quiet", 2 * CHALLENGE_MS - 1_000)]


def test_a_verification_brings_the_end_nearer(played: Played) -> None:
    played.read(*[0] * 5)
    [report] = played.read(1_000, verified=True)
    assert (report["state"], report["verified_until"]) == ("verified", THEN + 1_000 + VERIFIED_MS)
    assert states(played.wait(VERIFIED_MS)) == [("quiet", 1_000 + VERIFIED_MS)]
    assert played.kept is None


def test_a_client_that_did_little_is_forgotten_when_its_windows_are_closed(played: Played) -> None:
    played.read(0)
    played.wait(WINDOW_MS + LATE_MS - 1)
    assert played.kept is not None
    assert played.wait(WINDOW_MS + LATE_MS) == []
    assert played.kept is None
