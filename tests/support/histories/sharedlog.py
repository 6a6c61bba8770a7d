"""A log that thousands of generated histories share, one asset each, to judge a real job by.

A few runs of the job, and a few kills, then judge them all. Virtual time moves in rounds: in each
round every asset whose history is under way gets some records, and between the rounds pass seconds
or, at times, an hour. It lies ahead of real time, so that the ticks of the job itself never move a
bucket's clock. What is hostile is made out of what is good: one member of a record, its key or some
of its bytes is spoilt.
"""

from __future__ import annotations

import json
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, zip_longest
from typing import Any, NamedTuple

import confluent_kafka as ck
import msgspec

from bus.base import ConsumerRecord
from domain.records import (
    MAX_AHEAD,
    MAX_MUTED,
    MAX_VOTERS,
    STILL_AHEAD,
    Command,
    Leave,
    Mute,
    Record,
    RefusedReport,
    Report,
    UnknownFold,
    Unmute,
)
from domain.scenario import Scenario
from domain.scenario_parser import scenario_from_plain
from support.histories.histories import SECOND, STATES, _Maker
from wire.partitioner import partition_of
from wire.source import (
    MAX_BRACKETS,
    MAX_DETAIL,
    MAX_RECORD,
    MAX_TIME,
    decode_source,
    encode_command,
    encode_leave,
    encode_mute,
    encode_report,
    encode_scenario,
    encode_tick,
)
from wire.topics import Topics

SCENARIOS = """\
[watch]
partitions = 3
vote_lifetime = "1d"
states = [{ name = "bad" }, { name = "meh" }, { name = "good" }]
rule = { kind = "latest" }
reminders = { bad = "5s" }

[gate]
partitions = 2
vocabulary = "open"
vote_lifetime = "40s"
states = [{ name = "bad" }, { name = "meh" }, { name = "good" }]
[gate.rule]
kind = "quorum"
ladder = [{ state = "bad", at_least = 1 }, { state = "good", at_least = "1/2" }]
"""
PARTITIONS = {"watch": 3, "gate": 2}

VIRTUAL_TIME = {
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "message.timestamp.after.max.ms": str(2**63 - 1),
}
"""Settings of a source topic whose records bring their own time."""

AHEAD = 7_200_000
"""How far virtual time begins ahead of real time, ms: longer than any test runs."""

LONGEST = 40
"""Most records of one history, beside those of a crowd and what is spoilt."""

STEPS = (1, 1, 1, 1, 0, 0, 0, 2, 2, 2, 3, 3, 5, 5, 8, 31, 31, 3601)
"""Seconds from one round to the next."""

FIRST_RULE = 3
"""The round in which the first rule stands in each partition's log."""

OFFSET = b"@offset@"
"""In a value, where the offset of an earlier record belongs: known once that one is sent."""

AGENTS = ("～full", "😀full", "s2\U0001f4a9", "w1é", 'q"\\', "w", "s*")
"""Further agents: UTF-16 would sort some of them otherwise than code points do."""

USERS = ("Ольга", "😀", "～", 'o"\\', "x" * 250)
REASONS = ("", 'a "b"\\/', "\x00\x01\t\n\r\x1f\x7f\x80", "\u2028\ufeff😀", "é" * 500)


SINKING = (
    *(b',"x":NaN', b',"x":[1e999]', b',"x":"\xfc"', b',"x":"a\nb"', b',"state":"\\ud800"'),
    *(b',"detail":{"a":NaN}', b',"detail":{"a":"\xfc"}', b",\"detail\":{'a':'b'}", b',"detail":'),
    *(
        b',"x":1,"detail":{ "a" : 1.50 } , "y" : 01',
        b',"reported_at":1e999',
        b',"x":"%s"' % (b"[" * 301),
    ),
    *(b',"x":%s%s' % (b"[" * 400, b"]" * 400), b',"x":"%s"' % (b"x" * MAX_RECORD)),
)
"""Members that leave a report readable, in a record that is not."""

BROKEN_OFF = (b",", b',"x":{"n":', b',"x":"', b',"state":"ba', b"}x", b',"x":]}', b',"x" 1}', b"")
"""Ends of a report with which it breaks off."""


class Line(NamedTuple):
    """A record to be sent. time: ms; refers: the place, within its partition's lines, of the one
    whose offset is to stand for OFFSET."""

    scenario: str
    partition: int
    key: bytes | None
    value: bytes | None
    time: int
    headers: tuple[tuple[str, bytes | None], ...] = ()
    refers: int | None = None

    def value_with(self, offset_of: Callable[[int], int]) -> bytes | None:
        """The value; offset_of: the offset of a line of the same partition."""
        if self.value is None or self.refers is None:
            return self.value
        return self.value.replace(OFFSET, b"%d" % offset_of(self.refers))


Place = tuple[str, int]
"""A scenario and a partition of its source topic."""

Portion = Mapping[Place, range]
"""The places of some lines within those of their partitions."""


@dataclass(frozen=True)
class SharedLog:
    """The lines of every partition, in order."""

    lines: Mapping[Place, Sequence[Line]]

    def __len__(self) -> int:
        return sum(map(len, self.lines.values()))

    def portions(self, number: int) -> list[Portion]:
        """The places of the lines, cut into so many consecutive portions."""
        return [
            {
                place: range(len(lines) * at // number, len(lines) * (at + 1) // number)
                for place, lines in self.lines.items()
            }
            for at in range(number)
        ]

    def messages(self, topics: Topics) -> Iterator[tuple[Place, list[ConsumerRecord]]]:
        """Yield what a reader would find if nobody else wrote into the partitions."""
        for place, lines in self.lines.items():
            yield (
                place,
                [
                    ConsumerRecord(
                        topics.reports(line.scenario),
                        line.partition,
                        at,
                        line.time,
                        line.key,
                        line.value_with(lambda refers: refers),
                        line.headers,  # type: ignore[arg-type]
                    )
                    for at, line in enumerate(lines)
                ],
            )


def shared_log(seed: int, histories: int, rounds: int, start: int | None = None) -> SharedLog:
    """The log of this seed. start: virtual time of its first round, ms; by default AHEAD of now."""
    if start is None:
        start = (int(time.time()) * SECOND) + AHEAD
    assets: dict[Place, list[str]] = defaultdict(list)
    chooser = random.Random(seed)
    for number in range(histories):
        scenario, name = chooser.choice(list(PARTITIONS)), asset_name(chooser, number)
        assets[scenario, partition_of(name.encode(), PARTITIONS[scenario])].append(name)
    lines = {
        (scenario, partition): _PartitionLog(
            random.Random(f"{seed} {scenario} {partition}"), scenario, partition, start
        ).make(assets[scenario, partition], rounds)
        for scenario, partitions in PARTITIONS.items()
        for partition in range(partitions)
    }
    return SharedLog(lines)


def asset_name(chooser: random.Random, number: int) -> str:
    """A name that is this number's alone: some plain, some odd, some as long as may be."""
    form = chooser.choice(
        (
            "{}",
            "site-{}",
            "eu/site {}/é",
            "10.0.{}.0%2F8",
            "😀{}～",
            "e\u0301{}",
            " {} ",
            '"{}\\',
            "\u202e{}\ufeff\uffff\u2028",
            "long",
            "longest",
        )
    )
    if form == "long":
        return str(number).rjust(255, "x")
    return str(number).rjust(255, "😀") if form == "longest" else form.format(number)


# ---- one partition -------------------------------------------------------------------------


class _Asset(_Maker):
    """Draws the records of one asset."""

    def __init__(self, chooser: random.Random, name: str, first: int, length: int) -> None:
        super().__init__(chooser.randint)
        self.name, self.first, self.left = name, first, length
        self.purged = not self.chance(8)
        self.places: list[int] = []
        commander = self.chance(10)
        self._makers = (
            (8 if commander else 20, self._report),
            (24 if commander else 10, self._command),
            (2, self._refused_report),
            (1, self._clone),
            (2, self._leave),
        )

    def next(self, at: int) -> Record:
        """The next record, at `at` ms; the last one often ends the asset."""
        self._time = at
        self.left -= 1
        record = self._record()
        if self.left == 0 and self.purged:
            return Command("purge", self.name, self._id(), self.pick(USERS))
        return record

    def _asset(self) -> str:
        return self.name

    def _if_version(self) -> None:
        """Put into the bytes, because the offset is not known yet."""

    def _report(self) -> Report:
        report = super()._report()
        return replace(report, agent=self.pick(AGENTS)) if self.chance(4) else report

    def _refused_report(self) -> RefusedReport:
        """Beside the good reports of the same agents."""
        refused = super()._refused_report()
        return replace(refused, agent=self.pick(AGENTS)) if self.chance(8) else refused

    def _reported_at(self) -> int | None:
        """At times just so far ahead that the report is in doubt, or just not."""
        return self._time + self.pick(AHEADS) if self.chance(12) else super()._reported_at()

    def _leave(self) -> Leave:
        leave = super()._leave()
        return replace(leave, agent=self.pick(AGENTS)) if self.chance(4) else leave

    def _command(self) -> Command:
        command = super()._command()
        if self.chance(3):
            command = replace(command, user=self.pick(USERS), reason=self.pick(REASONS))
        return command

    def _word(self) -> str:
        return self.pick(("～", "😀", "keep")) if self.chance(40) else super()._word()


class _PartitionLog:
    """Draws the lines of one partition."""

    def __init__(self, chooser: random.Random, scenario: str, partition: int, start: int) -> None:
        self._random = chooser
        self._scenario, self._partition, self._time = scenario, partition, start
        self._maker = _Maker(chooser.randint)
        self._spoiler = Spoiler(chooser)
        self._rule = self._draw_rule()
        self._lines: list[Line] = []
        self._unheard = ["w1"]

    def make(self, names: Iterable[str], rounds: int) -> list[Line]:
        """The lines of histories of these assets."""
        assets = [self._asset(name, rounds) for name in names]
        crowds = set(self._random.sample(range(FIRST_RULE + 1, rounds), 1 + rounds // 200))
        for number in range(rounds):
            self._pass_time()
            if number >= FIRST_RULE and self._one_in(4):
                self._mute()
            self._round(number, [a for a in assets if a.first <= number and a.left])
            if number in crowds:
                self._crowd(number)
                self._silenced()
        return self._lines

    def _asset(self, name: str, rounds: int) -> _Asset:
        length = self._random.randint(1, LONGEST)
        return _Asset(self._random, name, self._random.randrange(max(1, rounds - length)), length)

    def _pass_time(self) -> None:
        step = self._random.choice(STEPS)
        if step and self._one_in(3):
            self._put(None, encode_tick(), self._time + self._random.randint(0, step * SECOND))
        self._time += step * SECOND

    def _round(self, number: int, assets: list[_Asset]) -> None:
        turns = [asset for asset in assets for _ in range(self._random.choice((0, 0, 1, 1, 2, 3)))]
        self._random.shuffle(turns)
        rule_at = self._random.randint(0, len(turns)) if self._rule_in(number) else -1
        for turn, asset in enumerate(turns):
            if turn == rule_at:
                self._change()
            if asset.left:
                self._turn(asset, number)
        if rule_at == len(turns):
            self._change()

    def _rule_in(self, number: int) -> bool:
        return number == FIRST_RULE or (number > FIRST_RULE and self._one_in(8))

    def _turn(self, asset: _Asset, number: int) -> None:
        at = self._moment()
        record = asset.next(at)
        key, value = asset.name.encode(), self._encode(record)
        value, refers = self._refer(record, value, asset.places)
        if number > FIRST_RULE and self._one_in(14):
            self._spoilt(key, value, at, refers)
        asset.places.append(len(self._lines))
        self._put(key, self._sunk(record, value), at, refers)

    def _moment(self) -> int:
        """Time of a record: that of the round, mostly."""
        if self._one_in(40):
            return self._time - self._random.choice((2, 2, 90)) * SECOND
        if self._one_in(1000):
            return self._time + 60 * SECOND
        return self._time + self._random.randint(1, 999) if self._one_in(20) else self._time

    def _encode(self, record: Record) -> bytes:
        if isinstance(record, Command):
            return self._commanding(record)
        if isinstance(record, Leave):
            return encode_leave(record)
        if isinstance(record, RefusedReport):
            return self._with_detail(self._refused(record), record.detail_fault)
        assert isinstance(record, Report)
        value = self._with_detail(encode_report(record), record.detail_fault)
        if record.detail is None and record.detail_fault is None and self._one_in(8):
            value = with_member(value, b"detail", self._random.choice(DETAILS))
        return value

    def _sunk(self, record: Record, value: bytes) -> bytes:
        """The record, of which a report at times cannot be read as a whole."""
        if not isinstance(record, Report | RefusedReport) or record.sunk is None:
            return value
        ends = BROKEN_OFF if isinstance(record, RefusedReport) else [m + b"}" for m in SINKING]
        return value[:-1] + self._random.choice(ends)

    def _commanding(self, command: Command) -> bytes:
        """A command; at times one about a task that makes no sense."""
        value = encode_command(command)
        if command.kind not in WRONG_TASKS or not self._one_in(6):
            return value
        wrong = self._random.choice(WRONG_TASKS[command.kind])
        return object_of({**members_of(value), **wrong}.items())

    def _refused(self, refused: RefusedReport) -> bytes:
        """A report whose state or time is wrong in this way."""
        report = Report(refused.asset, refused.agent, refused.said or STATES[0])
        if refused.sunk is not None:
            return encode_report(report)
        raw = self._random.choice(WRONG[refused.reason])
        name = b"reported_at" if refused.reason == "bad-time" else b"state"
        return object_of({**members_of(encode_report(report)), name: raw}.items())

    def _with_detail(self, value: bytes, fault: str | None) -> bytes:
        """The report with a detail that is left out for this reason, where there is one."""
        if fault is None:
            return value
        return with_member(value, b"detail", self._random.choice(UNUSABLE[fault]))

    def _refer(self, record: Record, value: bytes, places: list[int]) -> tuple[bytes, int | None]:
        """At times a command is for an earlier version of its asset."""
        if not isinstance(record, Command) or not places or not self._one_in(4):
            return value, None
        refers = self._random.choice((places[-1], *places[-5:]))
        epoch, step = self._random.randint(0, 2), self._random.choice((0, 0, 0, 1, 2, 9))
        form = self._random.choice((b'"%d.@offset@.%d"', b'"%06d.0000@offset@.%013d"'))
        return with_member(value, b"if_version", form % (epoch, step)), refers

    def _put(
        self, key: bytes | None, value: bytes | None, at: int, refers: int | None = None
    ) -> None:
        headers = self._random.choice(HEADERS) if self._one_in(20) else ()
        line = Line(self._scenario, self._partition, key, value, at, headers, refers)
        self._lines.append(line)

    # ---- rules ----

    def _change(self) -> None:
        if not self._one_in(5):
            self._rule = self._draw_rule()
        key = b"no asset" if self._one_in(5) else None
        self._put(key, encode_scenario(self._rule), self._moment())

    def _draw_rule(self) -> Scenario:
        plain = self._maker.scenario().to_plain()
        if self._one_in(3):
            plain["weights"] = {"～*": 3, "😀*": 2, "s2\U0001f4a9": 7, "w1é": 0, "*": 2}
        return scenario_from_plain({**plain, "name": self._scenario})

    # ---- mutes ----

    def _mute(self) -> None:
        """Some agent is muted, or heard again; at times the record is spoilt."""
        self._maker._time = self._time
        record = self._maker._mute()
        if isinstance(record, Mute) and record.until is None and not self._one_in(4):
            record = replace(record, until=self._time + 30 * SECOND)
        if self._one_in(3):
            record = replace(record, agent=self._random.choice(AGENTS))
        if isinstance(record, Unmute):
            record = replace(record, agent=self._random.choice(self._unheard[-2:]))
        self._unheard.append(record.agent)
        if self._one_in(3):
            record = replace(
                record, user=self._random.choice(USERS), reason=self._random.choice(REASONS)
            )
        value, at = encode_mute(record), self._moment()
        self._put(b"no asset" if self._one_in(5) else None, value, at)
        if self._one_in(3):
            self._put(None, self._spoiler.value(value, at), at)

    def _silenced(self) -> None:
        """More agents than may be muted, for a moment."""
        for number in range(MAX_MUTED + 2):
            mute = Mute(f"crowd-{number}", self._time + SECOND, "olga", "", _ID)
            self._put(None, encode_mute(mute), self._time)
        self._pass_time()

    # ---- what is hostile ----

    def _spoilt(self, key: bytes, value: bytes, at: int, refers: int | None) -> None:
        pick = self._random.randrange(20)
        if pick < 12:
            self._put(key, self._spoiler.value(value, at), at, refers)
        elif pick < 14:
            self._put(self._random.choice(KEYS), value, at, refers)
        elif pick < 15:
            self._put(self._key_of_another_partition(), value, at, refers)
        elif pick < 16:
            self._put(key, value, self._random.choice((1, 999, at - 86_400_000)), refers)
        elif pick < 18:
            self._put(key, self._random.choice(WHOLE), at)
        else:
            self._put(None, self._spoilt_rule(at), at)

    def _spoilt_rule(self, at: int) -> bytes:
        """A spoilt scenario record, but none of a later fold: that one would stop the job."""
        while True:
            rule = self._rule if self._one_in(2) else self._draw_rule()
            value = self._spoiler.rule(rule, at)
            if not isinstance(decode_source(None, value, at), UnknownFold):
                return value

    def _key_of_another_partition(self) -> bytes:
        partitions = PARTITIONS[self._scenario]
        keys = (b"stray-%d" % number for number in count(self._random.randrange(1000)))
        return next(key for key in keys if partition_of(key, partitions) != self._partition)

    def _crowd(self, number: int) -> None:
        """One agent more than an asset takes, all at one time; then it is purged."""
        partitions = PARTITIONS[self._scenario]
        names = (f"crowd/{number}/{n}" for n in count())
        name = next(n for n in names if partition_of(n.encode(), partitions) == self._partition)
        for agent in range(MAX_VOTERS + 2):
            report = Report(name, f"crowd-{agent}", self._random.choice(STATES[:2]))
            self._put(name.encode(), encode_report(report), self._time)
        for kind in ("vote", "purge"):
            state = STATES[0] if kind == "vote" else None
            id_ = f"{kind:0>8.8}-0000-4000-8000-000000000000".translate(_HEX)
            command = Command(kind, name, id_, "olga", state=state)
            self._put(name.encode(), encode_command(command), self._time)
            self._pass_time()

    def _one_in(self, of: int) -> bool:
        return self._random.randrange(of) == 0


_HEX = str.maketrans("votepurg", "01234567")
_ID = "0f8fad5b-d9cb-469f-a165-70867728950e"


# ---- spoiling ------------------------------------------------------------------------------


def text(content: str) -> bytes:
    """A JSON text as it stands, without escapes."""
    return b'"%s"' % content.encode()


def members_of(value: bytes) -> dict[bytes, bytes]:
    """The raw members of a JSON object."""
    raw = msgspec.json.decode(value, type=dict[str, msgspec.Raw])
    return {name.encode(): bytes(member) for name, member in raw.items()}


def object_of(members: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A JSON object out of raw members."""
    return b"{%s}" % b",".join(b'"%s":%s' % member for member in members)


def with_member(value: bytes, name: bytes, raw: bytes) -> bytes:
    """A JSON object with one member more, at its end."""
    return b'%s,"%s":%s}' % (value[:-1], name, raw)


ODD = (
    *b"null true false 0 -0 -1 1 1.0 -0.0 1e2 1E400 1e-400 01 +1 0x1 1. .5 - NaN Infinity".split(),
    *b"-Infinity nul [] {} [1] [[]] [1,] {, '' undefined 9007199254740993 1_0".split(),
    *(b"9" * digits for digits in (18, 19, 20, 40, 400, 5000)),
    *(b"%d" % n for n in (2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63) - 1)),
    *(b"%d" % n for n in (MAX_TIME, MAX_TIME + 1)),
    *(b"%d" % n for n in (86_400_000 * 366, 86_400_000 * 366 + 1, 1_000_000, 1_000_001)),
    b'""',
    b'"bad"',
    b'"keep"',
    b'"tick"',
    b'"report"',
    b'"leave"',
    b'"purge"',
    b'"mute"',
    b'"unmute"',
    b'"Report"',
    b'"r\\u0065port"',
    b'"\\ud800"',
    b'"\\udc00x"',
    b'"\\ud800\\ud800"',
    b'"\\ud83d\\ude00"',
    b'"\\uD83D\\uDE00 \\/ \\b"',
    b'"\\u0000"',
    b'"\\u007f"',
    b'"\\u0080\\u2028"',
    b'"a\\nb"',
    b'"a\nb"',
    b'"\\x41"',
    b'"\\u12g4"',
    b'"\x7f"',
    b'"\xff"',
    b'"\xc0\xae"',
    b'"\xed\xa0\x80"',
    b'"\xf4\x90\x80\x80"',
    b'"\xe2\x82"',
    b'"open',
    *(text("x" * n) for n in (40, 41, 64, 65, 250, 251, 255, 256, 500, 501)),
    *(text("😀" * n) for n in (64, 65, 250, 251, 255, 256, 500, 501)),
    b'"user:olga"',
    b'"us\\u0065r:olga"',
    b'"user:"',
    *(text(v) for v in ("1.2", "1.2.3", "1.2.3.4", "1.-2.3", "1.٢.3", "1. 2.3", "01.2.3", "1..3")),
    *(text(f"{n}.{n}.{n}") for n in (2**63 - 1, 2**63)),
    text("0" * 60 + ".1.1"),
    text("0" * 61 + ".1.1"),
    *(text(v) for v in ("0AAAAAAA-0000-4000-8000-00000000000F", "{00000000-0000-4000-8000-0}")),
    *(text(v) for v in ("00000000-0000-4000-8000-00000000000\u0660", "00000000-0000-4000-8000-0")),
    *(text(v) for v in ("30s", "250ms", "0s", "1.5s", "366d", "367d", "1w", "s", "1000000000s")),
    *(text(v) for v in ("1/2", "0/1", "1/1", "2/1", "1/0", "1/1000000", "٣/4", " 1/2", "-1/2")),
    *(text(v) for v in ("latest", "quorum", "closed", "python", "red", "pink", "watch", "gate")),
)
"""Raw values: none is what most members call for; some are no JSON, some are no UTF-8."""


def _detail(size: int) -> bytes:
    return b'{"x":"%s"}' % (b"x" * (size - len(b'{"x":""}')))


DETAILS = (
    b"{}",
    b"null",
    b'{ "a" : 1.50 , "b":\t[1E5, 1e-7,-0,-0.0, 0.1e+2 ] }',
    b'{"a":1,"a":2}',
    b'{"x":"\\u00e9\\/\\ud83d\\ude00\\u0001\\n\xf0\x9f\x98\x80\xe2\x80\xa8"}',
    b'{"\\u0061":{"":[null,true,false,{"d":[]}]}}',
    b'{"n":[18446744073709551615,-9223372036854775808,9007199254740993]}',
    b'{"n":18446744073709551616}',
    b'{"n":[{"m":-9223372036854775809}]}',
    b'{"n":12345678901234567890.5}',
    b'{"n":1e308,"m":1e309}',
    b'{"n":123456789012345678901234567890e-20}',
    b'{"state":"bad","agent":"w1","type":"tick","id":"x"}',
    _detail(MAX_DETAIL),
    _detail(MAX_DETAIL + 1),
    b'{"x":"%s"}' % ("é" * 1020).encode(),
    b'{"x":%s1}' % (b" " * MAX_DETAIL),
    b'{"x":%s%s}' % (b"[" * 200, b"]" * 200),
)
"""Members `detail`, raw; two are too large, some of their numbers are."""

UNUSABLE = {
    "bad-field": (b"[]", b'"x"', b"0", b"false", b'[{"a":1}]', b'"%s"' % (b"{" * 250)),
    "too-large": (
        _detail(MAX_DETAIL + 1),
        _detail(40_000),
        b'{"x":"%s"}' % ("é" * 1021).encode(),
        b"{%s}" % (b" " * (MAX_DETAIL - 1)),
        b'{"x":[%s0]}' % (b"0," * MAX_DETAIL),
    ),
}
"""Details that are left out, raw, by why."""

WRONG = {
    "bad-time": (b"-1", b"1.0", b"1e3", b'"1"', b"true", b"[]", b"%d" % (MAX_TIME + 1), b"9" * 40),
    "bad-field": (b"null", b"5", b"[]", b'{"bad":1}', b"true", b"1.5"),
    "unknown-state": (b'""', text("x" * 65), text("😀" * 65), b'"a\\nb"', b'"\\u0000"', b'"\x7f"'),
}
"""Times, or states, for which a report is refused, raw, by the reason."""

WRONG_TASKS: dict[str, tuple[dict[bytes, bytes], ...]] = {
    "cancel": ({b"task": b'"x"'},),
    "schedule": (
        {b"do": b'"dance"'},
        {b"if": b"5"},
        {b"after": b"999"},
        {b"every": b"%d" % (86_400_000 * 366 + 1)},
        {b"after": b"null", b"at": b"-1"},
        {b"after": b"1000", b"at": b"1"},
        {b"after": b"null", b"at": b"null", b"every": b"null"},
        {b"every": b"1000", b"times": b"0"},
        {b"every": b"null", b"after": b"1000", b"at": b"null", b"times": b"1"},
    ),
}
"""Members, raw, with which a command about a task makes no sense."""

AHEADS = (
    *(STILL_AHEAD, STILL_AHEAD + 1, STILL_AHEAD + 999),
    *(MAX_AHEAD, MAX_AHEAD + 1, MAX_AHEAD + 999, 2 * MAX_AHEAD, 86_400_000),
)
"""How far an agent's clock may be ahead, ms."""

_TICK, _REPORT = encode_tick(), b'{"type":"report","agent":"w1","state":"bad"}'
WHOLE = (
    None,
    b"",
    b" ",
    b"null",
    b"[]",
    b"{}",
    b"1",
    b'"x"',
    b"\xff",
    b"\x00",
    b"\xef\xbb\xbf" + _REPORT,
    _REPORT + b"\x00",
    _REPORT + _REPORT,
    b" \n\t\r" + _REPORT + b" \n",
    b"\x0b" + _REPORT,
    _REPORT.decode().encode("utf-16"),
    _REPORT.ljust(MAX_RECORD),
    _REPORT.ljust(MAX_RECORD + 1),
    b"\xff" * (MAX_RECORD + 1),
    with_member(_REPORT, b"x", b"[" * (MAX_BRACKETS - 1) + b"]" * (MAX_BRACKETS - 1)),
    with_member(_REPORT, b"x", b"[" * MAX_BRACKETS + b"]" * MAX_BRACKETS),
    with_member(_REPORT, b"x", b'"%s"' % (b"{" * MAX_BRACKETS)),
    _REPORT.replace(b"agent", b"\\u0061gent"),
    _REPORT.replace(b":", b"\n : \t"),
    b'{"type":"t\\u0069ck"}',
    b'{"scenario":5,"type":"tick","agent":1}',
    b'{"type":"tick","type":"tock"}',
    b'{"type":"tock"}',
    b'{"type":["report"]}',
    b"{'type':'tick'}",
    b'{"type":"mute"}',
    b'{"type":"mute","agent":"w1","id":"%s","user":"olga","until":1}' % _ID.encode(),
    b'{"type":"unmute","agent":"w1","id":"%s","user":"olga","until":[]}' % _ID.encode(),
    b'{"type":"tick",}',
    b'{"type":"tick"/**/}',
    b'{"type":"scenario"}',
    b'{"type":"scenario","scenario":[]}',
    b'{"type":"scenario","scenario":{"name":"watch"}}',
)
"""Whole values: some are read all the same."""

KEYS = (
    None,
    b"",
    b"x" * 256,
    "😀".encode() * 255,
    "😀".encode() * 256,
    b"a\x00b",
    b"a\nb",
    b"\x7f",
    b"\xc2\x80",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b" ",
)
"""Keys that are no assets' names, or unlikely ones."""

HEADERS: tuple[tuple[tuple[str, bytes | None], ...], ...] = (
    (("trace", b"\xfe\x00"),),
    (("a", b"1"), ("a", b"2"), ("", b"")),
    (('"ü\\😀', "é".encode()), ("reason", b"x"), ("source-offset", b"-1")),
    (("large", b"\x80" * 3000),),
    (("none", None), ("none", b"x")),
)

FIELDS = b"type agent state reported_at detail id user reason until if_version x".split()


class Spoiler:
    """Makes hostile values out of good ones."""

    def __init__(self, chooser: random.Random) -> None:
        self._random = chooser

    def value(self, value: bytes, at: int) -> bytes:
        """One thing is wrong with this report or command, or just unusual. at: its time, ms."""
        spoil = self._random.choice(
            (self._odd_member, self._odd_member, self._odd_member, self._other_order, self._lacking)
        )
        if self._random.randrange(3) == 0:
            return self._damaged(value)
        return object_of(spoil(list(members_of(value).items()), at))

    def rule(self, rule: Scenario, at: int) -> bytes:
        """A scenario record with some value in it replaced, taken away or added."""
        plain = rule.to_plain()
        if self._random.randrange(4) == 0:
            return self._damaged(encode_scenario(rule))
        spot, key = self._random.choice(list(_spots(plain)))
        marker = "@odd@"
        if self._random.randrange(5) == 0:
            del spot[key]
        else:
            spot[key] = marker
        if self._random.randrange(6) == 0:
            plain["x"] = marker
        raw = json.dumps(plain, ensure_ascii=False).encode()
        raw = raw.replace(b'"@odd@"', self._odd(at))
        return b'{"type":"scenario","scenario":%s}' % raw

    def _odd(self, at: int) -> bytes:
        if self._random.randrange(12) == 0:
            ahead = self._random.choice((STILL_AHEAD, MAX_AHEAD)) + self._random.randint(0, 1)
            return b"%d" % (at + ahead)
        return self._random.choice(ODD)

    def _odd_member(self, members: list[tuple[bytes, bytes]], at: int) -> list[tuple[bytes, bytes]]:
        """Another value for a member, in its place or once more at the end."""
        known = [name for name, _ in members]
        name = self._random.choice((*known, *FIELDS))
        odd = (name, self._odd(at))
        if name not in known or self._random.randrange(4) == 0:
            return [*members, odd]
        return [odd if member[0] == name else member for member in members]

    def _other_order(
        self, members: list[tuple[bytes, bytes]], at: int
    ) -> list[tuple[bytes, bytes]]:
        self._random.shuffle(members)
        name, raw = members[0]
        return [(b"\\u%04x" % name[0] + name[1:], b" %s\n" % raw), *members[1:]]

    def _lacking(self, members: list[tuple[bytes, bytes]], at: int) -> list[tuple[bytes, bytes]]:
        members.pop(self._random.randrange(len(members)))
        return members

    def _damaged(self, value: bytes) -> bytes:
        """Some bytes are changed, lost, or there twice."""
        damaged = bytearray(value)
        for _ in range(self._random.choice((1, 1, 2))):
            at = self._random.randrange(len(damaged))
            match self._random.randrange(4):
                case 0:
                    damaged[at] = self._random.randrange(256)
                case 1:
                    damaged[at : at + 1] = self._random.choice(b'"{}[],:\\0e.').to_bytes()
                case 2:
                    del damaged[at : at + self._random.choice((1, 1, len(damaged)))]
                case _:
                    damaged[at:at] = damaged[at : at + self._random.choice((1, 8))]
            if not damaged:
                break
        return bytes(damaged)


def _spots(plain: Any) -> Iterator[tuple[Any, Any]]:
    """Every place within JSON-able data: the dict or list, and the key or index."""
    items = plain.items() if isinstance(plain, dict) else enumerate(plain)
    for key, value in items:
        yield plain, key
        if isinstance(value, dict | list):
            yield from _spots(value)


# ---- sending -------------------------------------------------------------------------------


class Sender:
    """Sends portions of a shared log to a broker, each record with its own time."""

    def __init__(self, bootstrap: str, topics: Topics, log: SharedLog) -> None:
        self._topics, self._log = topics, log
        self._offsets: dict[Place, dict[int, int]] = {place: {} for place in log.lines}
        options = {"bootstrap.servers": bootstrap, "enable.idempotence": "true", "linger.ms": "20"}
        self._producer = ck.Producer({**options, "log_level": "2"})

    def send(self, portion: Portion) -> None:
        """Send a portion, and wait until it is in the log."""
        ends = self._ends(portion)
        rows = zip_longest(*([(place, at) for at in offsets] for place, offsets in portion.items()))
        for place, at in (pair for row in rows for pair in row if pair is not None):
            self._send(place, at, ends[place] - portion[place].start)
        assert self._producer.flush(30) == 0

    def _ends(self, portion: Portion) -> dict[Place, int]:
        """The next offset of each partition, as it should be but for the job's own records."""
        return {place: max(self._offsets[place].values(), default=-1) + 1 for place in portion}

    def _send(self, place: Place, at: int, shift: int) -> None:
        line, offsets = self._log.lines[place][at], self._offsets[place]
        self._producer.produce(
            self._topics.reports(line.scenario),
            line.value_with(lambda refers: offsets.get(refers, refers + shift)),
            line.key,
            partition=line.partition,
            on_delivery=partial(_sent, offsets, at),
            timestamp=line.time,
            headers=list(line.headers),
        )
        self._producer.poll(0)


def _sent(offsets: dict[int, int], at: int, error: ck.KafkaError | None, message: Any) -> None:
    assert error is None, error
    offsets[at] = message.offset()


def damaged_reports(chosen: random.Random, count: int) -> Iterator[bytes]:
    """Yield reports whose bytes are damaged in a few places, or that have a member too many."""
    noise = (*b'"\\{}[],:u\n', 0, 0x7F, 0xC3, 0xFF, *b"NaN1e9")
    for number in range(count):
        report = Report(
            "shop", f"w{number % 7}", chosen.choice(STATES), number, '{"a":["\\u00e9",1.5]}'
        )
        value = bytearray(encode_report(report))
        if chosen.random() < 0.5:
            value[-1:] = chosen.choice((*SINKING, *BROKEN_OFF)) + b"}"
        for _ in range(chosen.choice((0, 1, 1, 2, 3))):
            at = chosen.randrange(min(len(value), 150))
            value[at : at + chosen.choice((0, 1, 1, 9))] = bytes([chosen.choice(noise)])
        yield bytes(value[: chosen.randrange(len(value))] if chosen.random() < 0.1 else value)
