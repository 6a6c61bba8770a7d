"""The login guard's fold: an example of each sentence, and generated records counted plainly."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.login_windows import (
    CHALLENGE_MS,
    LATE_MS,
    REFRESH_MS,
    THRESHOLD,
    VERIFIED_MS,
    WINDOW_MS,
    ActionWindow,
    Client,
    ClientReport,
    begins,
)

NOON = 1_790_000_000_000
QUARTER = VERIFIED_MS


def acted(client: Client, *times: int) -> list[ClientReport]:
    """What is reported as a client acts at these times."""
    return [report for time in times for report in client.act(time)]


def challenged(at: int = NOON) -> Client:
    """A client that is challenged by five actions at once."""
    client = Client()
    assert [report.state for report in acted(client, *[at] * THRESHOLD)] == ["challenge"]
    return client


def test_a_time_lies_in_two_or_three_windows() -> None:
    assert list(begins(10_000)) == [10_000, 8_000, 6_000]
    assert list(begins(10_999)) == [10_000, 8_000, 6_000]
    assert list(begins(11_000)) == [10_000, 8_000]
    assert list(begins(0)) == [0, -2_000, -4_000]


def test_four_actions_are_none_of_our_business_and_the_fifth_is() -> None:
    client = Client()
    assert acted(client, NOON, NOON + 700, NOON + 1_400, NOON + 2_100) == []
    [report] = acted(client, NOON + 2_999)
    assert report == ClientReport(
        "challenge",
        NOON + 2_999,
        (
            ActionWindow(NOON - 4_000, NOON + 1_000, 2),
            ActionWindow(NOON - 2_000, NOON + 3_000, 5),
            ActionWindow(NOON, NOON + 5_000, 5),
            ActionWindow(NOON + 2_000, NOON + 7_000, 2),
        ),
    )


def test_slow_guessing_is_not_challenged() -> None:
    assert acted(Client(), *range(NOON, NOON + 3_600_000, 1_250)) == []


@given(st.integers(0, 10**13), st.lists(st.integers(0, 3_000), min_size=5, max_size=5))
def test_any_five_actions_within_three_seconds_are_challenged(
    begin: int, offsets: list[int]
) -> None:
    reports = acted(Client(), *(begin + offset for offset in offsets))
    assert [report.state for report in reports] == ["challenge"]


@pytest.mark.parametrize("place", [0, 1, 1_999])
def test_five_actions_over_more_than_three_seconds_may_share_no_window(place: int) -> None:
    times = [NOON + place + offset for offset in (0, 800, 1_600, 2_400, 3_001)]
    assert bool(acted(Client(), *times)) == (place != 1_999)


# ---- verified -----------------------------------------------------------------------------------


def test_a_verified_client_is_not_counted_for_fifteen_minutes_and_then_from_nothing() -> None:
    client = challenged()
    until = NOON + 5_000 + QUARTER
    assert client.verify(NOON + 5_000) == [
        ClientReport("verified", NOON + 5_000, verified_until=until)
    ]
    assert acted(client, *range(until - 60_000, until, 10)) == []
    [ended] = acted(client, until, until + 1, until + 2, until + 3)
    assert ended == ClientReport("quiet", until)
    assert [report.state for report in acted(client, until + 4)] == ["challenge"]


def test_verified_again_is_verified_for_longer() -> None:
    client = Client()
    client.verify(NOON)
    [report] = client.verify(NOON + 60_000)
    assert report.verified_until == NOON + 60_000 + QUARTER
    assert client.advance(NOON + QUARTER) == []
    assert client.due == NOON + 60_000 + QUARTER


def test_what_was_done_before_the_verification_counts_no_more_however_late_it_comes() -> None:
    client = Client()
    acted(client, *[NOON] * 4)
    client.verify(NOON + 1_000)
    assert acted(client, NOON + 500, NOON + 900) == []
    assert client.advance(NOON + 1_000 + QUARTER) == [ClientReport("quiet", NOON + 1_000 + QUARTER)]
    assert acted(client, *[NOON + 999 + QUARTER] * 9) == []


# ---- time ---------------------------------------------------------------------------------------


def test_a_challenge_ends_an_hour_after_the_last_action() -> None:
    client = challenged()
    acted(client, NOON + 1_000)
    assert client.advance(NOON + CHALLENGE_MS) == []
    assert client.due == NOON + 1_000 + CHALLENGE_MS
    assert client.advance(NOON + 2 * CHALLENGE_MS) == [ClientReport("quiet", client.reported_at)]
    assert client.reported_at == NOON + 1_000 + CHALLENGE_MS


def test_time_that_only_shows_in_the_next_action_ends_a_challenge_too() -> None:
    client = challenged()
    assert [report.state for report in acted(client, NOON + CHALLENGE_MS)] == ["quiet"]
    assert acted(client, *[NOON + CHALLENGE_MS] * 3) == []


def test_a_client_that_goes_on_is_reported_every_thirty_seconds() -> None:
    client = challenged()
    times = range(NOON + 1_000, NOON + 90_001, 1_000)
    reports = acted(client, *times)
    assert [report.at for report in reports] == [NOON + REFRESH_MS * n for n in (1, 2, 3)]
    assert {report.state for report in reports} == {"challenge"}


def test_a_record_ten_seconds_late_counts_and_a_later_one_is_dropped_and_counted() -> None:
    client = Client()
    acted(client, NOON + LATE_MS, *[NOON] * 4)
    assert acted(client, NOON - 1) == []
    assert client.verify(NOON - 1) == []
    assert client.late == 2
    [report] = acted(client, NOON)
    assert ActionWindow(NOON, NOON + WINDOW_MS, 5) in report.windows


def test_a_quiet_client_can_be_forgotten_once_its_windows_are_closed() -> None:
    client = Client()
    client.act(NOON)
    assert client.due == NOON + WINDOW_MS + LATE_MS
    assert client.advance(client.due) == []
    assert client.counts == {}


# ---- against a plain count ----------------------------------------------------------------------


class Naive:
    """Keeps every record, and counts anew each time."""

    def __init__(self) -> None:
        self.clock, self.late, self.until = -1, 0, 0
        self.counted: list[int] = []

    def take(self, kind: str, time: int) -> None:
        if time < self.clock - LATE_MS:
            self.late += 1
            return
        self.clock = max(self.clock, time)
        if kind == "verified":
            self.until = max(self.until, time + VERIFIED_MS)
            self.counted.clear()
        elif time >= self.until:
            self.counted.append(time)

    def windows(self) -> set[ActionWindow]:
        """The windows that a record may still change."""
        first = (self.clock - LATE_MS - WINDOW_MS) // 2_000 * 2_000
        counts = {
            begin: sum(begin <= time < begin + WINDOW_MS for time in self.counted)
            for begin in range(first, self.clock + 1, 2_000)
            if begin + WINDOW_MS > self.clock - LATE_MS
        }
        return {
            ActionWindow(begin, begin + WINDOW_MS, count)
            for begin, count in counts.items()
            if count
        }

    def full(self) -> bool:
        """Whether a window that is still open holds five."""
        return any(window.count >= THRESHOLD for window in self.windows())


steps = st.integers(-12_000, 6_000) | st.integers(-3_000, 3_000) | st.just(VERIFIED_MS)
records = st.lists(
    st.tuples(st.sampled_from(["login"] * 9 + ["verified"]), steps), min_size=1, max_size=40
)


def timed(steps: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Records by the time between each and the one before."""
    time, made = 100_000, []
    for kind, step in steps:
        time = max(0, time + step)
        made.append((kind, time))
    return made


@given(records)
def test_windows_equal_a_naive_count_in_any_order_of_records(
    steps: list[tuple[str, int]],
) -> None:
    client, naive = Client(), Naive()
    reports: list[ClientReport] = []
    for kind, time in timed(steps):
        naive.take(kind, time)
        reports += client.verify(time) if kind == "verified" else client.act(time)
        kept = {ActionWindow(begin, begin + WINDOW_MS, n) for begin, n in client.counts.items()}
        assert kept == naive.windows()
        assert len(client.counts) <= 8
        assert (client.clock, client.late) == (naive.clock, naive.late)
        if naive.full():
            assert client.state == "challenge"
        assert (client.state == "verified") == (client.clock < naive.until)
    assert [one.at for one in reports] == sorted(one.at for one in reports)


@given(records, st.randoms(use_true_random=False))
def test_the_order_of_records_within_ten_seconds_does_not_decide_who_is_challenged(
    steps: list[tuple[str, int]], chance: object
) -> None:
    times = [time for _, time in timed(steps)]
    close = [time for time in times if time <= min(times) + LATE_MS]
    shuffled = list(close)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    states = set()
    for order in (close, shuffled, sorted(close)):
        client = Client()
        acted(client, *order)
        states.add(client.state)
        assert client.late == 0
    assert len(states) == 1
