"""Whether a session still holds is looked up once for all its sockets, and anew for a new one."""

from __future__ import annotations

import asyncio

import pytest

from dashboard.board.live.admission import FRESH_S, Access, Admissions


class Looks:
    """What was looked up; sessions stand as `stands` says."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.stands: Access = "reader"
        self.now = 100.0

    def __call__(self, key: str) -> Access:
        self.keys.append(key)
        return self.stands


@pytest.fixture
def looks() -> Looks:
    return Looks()


@pytest.fixture
def admissions(looks: Looks) -> Admissions:
    return Admissions(looks, lambda: looks.now)


async def test_sockets_of_a_session_share_a_look(admissions: Admissions, looks: Looks) -> None:
    accesses = await asyncio.gather(*(admissions.of("a", anew=False) for _ in range(100)))
    assert set(accesses) == {"reader"}
    await admissions.of("b", anew=False)
    assert looks.keys == ["a", "b"]


async def test_a_new_socket_is_not_told_what_was_found_before(
    admissions: Admissions, looks: Looks
) -> None:
    await admissions.of("a", anew=False)
    looks.stands = "anonymous"
    assert await admissions.of("a", anew=True) == "anonymous"
    assert await admissions.of("a", anew=False) == "anonymous"


async def test_a_finding_grows_old(admissions: Admissions, looks: Looks) -> None:
    await admissions.of("a", anew=False)
    looks.stands = "no role"
    looks.now += FRESH_S + 0.1
    assert await admissions.of("a", anew=False) == "no role"
    assert looks.keys == ["a", "a"]


async def test_no_session_needs_no_look(admissions: Admissions, looks: Looks) -> None:
    assert await admissions.of(None, anew=True) == "anonymous"
    assert await admissions.of("", anew=True) == "anonymous"
    assert looks.keys == []


async def test_a_look_that_fails_is_told_to_who_asked_and_made_again() -> None:
    accesses: list[Access | None] = [None, "reader"]

    def look(_: str) -> Access:
        standing = accesses.pop(0)
        if standing is None:
            raise OSError("away")
        return standing

    admissions = Admissions(look, lambda: 100.0)
    with pytest.raises(OSError, match="away"):
        await admissions.of("a", anew=False)
    assert await admissions.of("a", anew=False) == "reader"
