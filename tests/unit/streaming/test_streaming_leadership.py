"""Which of several jobs leads, on a bus in memory: their clock is the test's."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bus.base import TopicSpec, Unavailable
from bus.memory import MemoryBus
from config import leadership as records
from config.leadership import Leader
from streaming.job.leadership import CHECK_S, SESSION_S, Leadership

GROUP, TOPIC = "job-leader", "job.control"


@dataclass
class Machine:
    """The lock's two bytes, and who died: what the kernel knows of a machine."""

    driver: str = ""
    jvm: str = ""
    killed: list[str] = field(default_factory=list)

    def die(self, name: str, *, jvm: bool = True) -> None:
        """End a process; jvm: its JVM as well."""
        self.driver = "" if self.driver == name else self.driver
        self.jvm = "" if jvm and self.jvm == name else self.jvm


class PlayedLock:
    """One process's view of the lock."""

    def __init__(self, machine: Machine, name: str) -> None:
        self._machine, self._name = machine, name

    def free(self) -> bool:
        return self._machine.driver in ("", self._name)

    def take(self) -> bool:
        if not self.free():
            return False
        self._machine.driver = self._name
        return self._machine.jvm in ("", self._name)

    def release(self) -> None:
        self._machine.die(self._name)

    def end_orphan(self) -> bool:
        self._machine.killed.append(f"jvm of {self._machine.jvm}")
        self._machine.jvm = ""
        return True

    def fence(self, leader: Leader) -> bool:
        self._machine.killed.append(leader.name)
        self._machine.die(leader.name)
        return True


class Scene:
    """A machine with candidates; time passes by `wait` alone."""

    def __init__(self, folder: Path) -> None:
        self.now, self.machine, self.file = 100.0, Machine(), folder / "leader.json"
        self.bus = MemoryBus(lambda: int(self.now * 1000))
        self.bus.ensure_topics([TopicSpec(TOPIC, 1, {})])
        self.lost: list[tuple[str, str]] = []

    def candidate(self, name: str, *, leased: bool = False, boot: str = "") -> Leadership:
        return Leadership(
            self.bus,
            (GROUP, TOPIC),
            PlayedLock(self.machine, name),
            (Leader(name=name, role=name, boot=boot), self.file),
            lambda why: self.lost.append((name, why)),
            lambda: self.now,
            lambda: int(self.now * 1000),
            leased=leased,
        )

    def wait(self, seconds: float, *turning: Leadership) -> None:
        """Let time pass, with turns of these candidates alone: the others stand still."""
        end = self.now + seconds
        while self.now < end:
            self.now += CHECK_S / 2
            for one in turning:
                one.turn(0)

    def leading(self, *candidates: Leadership) -> list[bool]:
        return [one.leads.is_set() for one in candidates]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def pair(scene: Scene) -> tuple[Leadership, Leadership]:
    """A leader that runs and a standby that is ready."""
    one, two = scene.candidate("one"), scene.candidate("two")
    scene.wait(2, one)
    scene.machine.jvm = "one"
    scene.wait(2, one, two)
    assert scene.leading(one, two) == [True, False]
    return one, two


def test_the_first_one_leads_and_tells_of_its_standby(scene: Scene) -> None:
    one, two = scene.candidate("one"), scene.candidate("two")
    scene.wait(2, one)
    assert records.read(scene.file).name == "one"
    assert one.standby == 0
    begun = scene.now
    scene.wait(3, one, two)
    assert scene.leading(one, two) == [True, False]
    assert begun * 1000 < one.standby <= (begun + 2 * CHECK_S) * 1000
    assert records.read(scene.file).standby == one.standby


def test_a_standby_that_ends_is_told_of(scene: Scene) -> None:
    one, two = pair(scene)
    two.leave()
    scene.wait(2 * CHECK_S, one)
    assert one.standby == records.read(scene.file).standby == 0


def test_a_leader_that_died_is_replaced_before_its_session_ends(scene: Scene) -> None:
    _one, two = pair(scene)
    scene.machine.die("one")
    scene.wait(SESSION_S / 2, two)
    assert two.leads.is_set()
    assert scene.machine.driver == "two"
    assert scene.machine.killed == []


def test_a_jvm_that_outlived_its_driver_is_ended_first(scene: Scene) -> None:
    _one, two = pair(scene)
    scene.machine.die("one", jvm=False)
    scene.wait(SESSION_S / 2, two)
    assert two.leads.is_set()
    assert scene.machine.killed == ["jvm of one"]


def test_a_leader_that_stands_still_is_ended_once_its_session_is_over(scene: Scene) -> None:
    _one, two = pair(scene)
    scene.wait(SESSION_S - 2 * CHECK_S, two)
    assert not two.leads.is_set()
    assert scene.machine.killed == []
    scene.wait(4 * CHECK_S, two)
    assert two.leads.is_set()
    assert scene.machine.killed == ["one"]
    assert scene.lost == []  # it never took another turn


def test_a_leader_that_wakes_up_as_none_lets_go(scene: Scene) -> None:
    """As on another machine, where nobody can end it: it does so itself, at its first turn."""
    one, two = pair(scene)
    scene.wait(SESSION_S + 4 * CHECK_S, two)
    one.turn(0)
    assert [name for name, _ in scene.lost] == ["one"]
    one.turn(0)
    assert len(scene.lost) == 1


def test_a_leader_whose_place_is_good_is_not_fenced(scene: Scene) -> None:
    """Nor is one that ends of itself: it frees the lock before it leaves the group."""
    one, two = pair(scene)
    scene.wait(2, one, two)
    assert scene.machine.killed == []
    one.leave()
    scene.wait(2 * CHECK_S, two)
    assert two.leads.is_set()
    assert scene.machine.killed == []
    assert scene.lost == []


def test_a_job_without_a_standby_is_never_killed(scene: Scene) -> None:
    """It is in no group, so the group has not put it out."""
    two = scene.candidate("two")
    scene.machine.driver = "alone"
    records.write(scene.file, Leader(role="job", driver=7))
    scene.wait(2 * SESSION_S, two)
    assert not two.leads.is_set()
    assert scene.machine.killed == []


def test_a_leader_that_hears_nothing_of_the_group_lets_go(scene: Scene) -> None:
    """So another machine may lead; by the client's clock, as nobody else can tell it."""
    one, _two = pair(scene)
    scene.bus.stop()
    scene.now += SESSION_S - 1
    with pytest.raises(Unavailable):
        one.turn(0)
    assert scene.lost == []
    scene.now += 2
    with pytest.raises(Unavailable):
        one.turn(0)
    assert [name for name, _ in scene.lost] == ["one"]


def test_a_record_that_cannot_be_read_names_nobody(tmp_path: Path) -> None:
    path = tmp_path / "leader.json"
    assert records.read(path) == Leader()
    for text in ("{", "[]", '{"other": 1}'):
        path.write_text(text)
        assert records.read(path) == Leader()


# ---- leases -------------------------------------------------------------------------------------


class PlayedLease:
    """The JVM's lease, played: when it ends, by the scene's clock."""

    def __init__(self, scene: Scene) -> None:
        self._scene, self.end = scene, -math.inf

    def begin(self, length_ms: int) -> PlayedLease:
        self.renew(length_ms)
        return self

    def renew(self, length_ms: int) -> None:
        self.end = self._scene.now + length_ms / 1000


def session_with(lease: PlayedLease) -> Any:
    kernel = SimpleNamespace(Lease=lease)
    return SimpleNamespace(_jvm=SimpleNamespace(tallyboard=SimpleNamespace(kernel=kernel)))


def leased(scene: Scene) -> tuple[Leadership, PlayedLease]:
    """A leader on one of several machines, and the lease of its JVM."""
    one, lease = scene.candidate("one", leased=True), PlayedLease(scene)
    scene.wait(2, one)
    one.lease_to(session_with(lease))
    return one, lease


def test_a_lease_begins_once_the_group_has_confirmed_the_leader(scene: Scene) -> None:
    one, lease = scene.candidate("one", leased=True), PlayedLease(scene)
    waiting = threading.Thread(target=one.lease_to, args=(session_with(lease),), daemon=True)
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()
    scene.wait(2, one)
    waiting.join(10)
    assert not waiting.is_alive()
    assert scene.now < lease.end <= scene.now + SESSION_S


def test_a_lease_lasts_as_long_as_the_group_confirms_it(scene: Scene) -> None:
    one, lease = leased(scene)
    scene.wait(10 * SESSION_S, one)
    assert lease.end > scene.now + SESSION_S - 2 * CHECK_S


def test_a_lease_ends_before_another_machine_leads(scene: Scene) -> None:
    """No lock is common to the two, and the first process hangs while its JVM goes on."""
    _one, lease = leased(scene)
    scene.machine, scene.file = Machine(), scene.file.with_name("other.json")
    two = scene.candidate("two", leased=True)
    while not two.leads.is_set():
        scene.wait(CHECK_S / 2, two)
    assert lease.end <= scene.now


def test_a_leader_on_another_machine_is_not_taken_for_dead(scene: Scene) -> None:
    """Its file may be seen from here, as on a shared mount; its lock cannot."""
    one, _lease = leased(scene)
    scene.machine = Machine()
    two = scene.candidate("two", leased=True, boot="another")
    scene.wait(SESSION_S / 2, one, two)
    assert scene.leading(one, two) == [True, False]


def test_a_jvm_that_is_gone_needs_no_lease(scene: Scene) -> None:
    one, lease = leased(scene)

    def gone(_length_ms: int) -> None:
        raise ConnectionRefusedError("no JVM")

    lease.renew = gone  # type: ignore[method-assign,assignment]
    scene.wait(SESSION_S, one)
    assert scene.leading(one) == [True]


def test_a_lease_that_has_ended_is_not_prolonged(scene: Scene) -> None:
    one, lease = leased(scene)
    end = lease.end
    one.end_lease()
    scene.wait(SESSION_S, one)
    assert lease.end == end


def test_on_one_machine_there_is_no_lease(scene: Scene) -> None:
    one = scene.candidate("one")
    scene.wait(2, one)
    one.lease_to(None)  # type: ignore[arg-type]
