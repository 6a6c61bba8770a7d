"""The kernel mirrors the fold: the same constants, and names of reasons and causes.

What either side has alone is listed here, so that a constant that is new on one side fails.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from domain import (
    adoption,
    asset,
    commands,
    config_values,
    doubts,
    fold,
    lateness,
    mutes,
    names,
    python_rules,
    records,
    scenario,
    scenario_parser,
    tally,
    tasks,
    timers,
    transitions,
    votes,
)
from streaming.fold import processor
from streaming.kernel import sources, state_codec
from streaming.spark import executors
from wire import forward, signature, sink, source

JAVA = {path.stem: path.read_text() for path in sources()}
CONSTANT = re.compile(r"static final ([\w<>\[\], ]+?) ([A-Z_]+ =.*?);", re.DOTALL)
TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')

SHARED: Mapping[str, Any] = {
    "SharedStorage.ABSENT": executors.ABSENT,
    "SharedStorage.FOREIGN": executors.FOREIGN,
    "SharedStorage.NO_KEYS": executors.NO_KEYS,
    "SharedStorage.UNWRITABLE": executors.UNWRITABLE,
    "Asset.OVERRIDE_END": asset.OVERRIDE_END,
    "Forward.MAX_FORWARDED": forward.MAX_FORWARDED,
    "Forward.PARTITION": forward.PARTITION,
    "Forward.OFFSET": forward.OFFSET,
    "Forward.TIME": forward.TIME,
    "Asset.VOTE_EXPIRY": asset.VOTE_EXPIRY,
    "Asset.DOUBT_END": asset.DOUBT_END,
    "Asset.VOTE_FORGOTTEN": asset.VOTE_FORGOTTEN,
    "Asset.MUTE_END": asset.MUTE_END,
    "Asset.HOLD": asset.HOLD,
    "Asset.SCHEDULE": asset.SCHEDULE,
    "Asset.REMINDER": asset.REMINDER,
    "Asset.PURGE_AFTER": asset.PURGE_AFTER,
    "Asset.FORGET": asset.FORGET,
    "Asset.TIMER_TYPES": list(asset.TIMER_TYPES),
    "Asset.UNKNOWN": scenario.UNKNOWN,
    "Asset.ANSWERS_KEPT": asset.ANSWERS_KEPT,
    "Asset.LEAST_TRACE": asset.LEAST_TRACE,
    "Bucket.REFRESH_AFTER": fold.REFRESH_AFTER,
    "Bucket.MAX_AHEAD": records.MAX_AHEAD,
    "Bucket.STILL_AHEAD": records.STILL_AHEAD,
    "Codec.CURRENT": state_codec.CURRENT,
    "Codec.HAS_MUTE": state_codec.HAS_MUTE,
    "Codec.HAS_SILENCE": state_codec.HAS_SILENCE,
    "Codec.HAS_ORDER": state_codec.HAS_ORDER,
    "Codec.HAS_AGE": state_codec.HAS_AGE,
    "Codec.HAS_DOUBT": state_codec.HAS_DOUBT,
    "Codec.HAS_DETAIL_FAULT": state_codec.HAS_DETAIL_FAULT,
    "Codec.HAS_FLAP": state_codec.HAS_FLAP,
    "Codec.HAS_CLAIM": state_codec.HAS_CLAIM,
    "Commands.APPLIED": records.APPLIED,
    "Commands.NO_CHANGE": records.NO_CHANGE,
    "Commands.REFUSED": records.REFUSED,
    "Doubts.CLOCK_AHEAD": records.CLOCK_AHEAD,
    "Doubts.CLOCK_BACK": records.CLOCK_BACK,
    "Doubts.PURGED": records.PURGED,
    "Doubts.CONTRADICTION": records.CONTRADICTION,
    "Doubts.STALE": records.STALE,
    "Doubts.RENAMED": records.RENAMED,
    "Doubts.MAX_VOTELESS": records.MAX_VOTELESS,
    "Lateness.FIGURES": [field.name for field in fields(lateness.Lateness)][1:],
    "Lateness.MAX_AGENTS": lateness.MAX_AGENTS,
    "Mutes.MAX_MUTED": records.MAX_MUTED,
    "Names.USER": names.USER_PREFIX,
    "Names.MAX_NAME": names.MAX_NAME,
    "Names.MAX_STATE": names.MAX_STATE,
    "Rule.FOLD": scenario.FOLD,
    "Rule.DOUBT_FOLD": scenario.DOUBT_FOLD,
    "Rule.CLAIM_FOLD": scenario.CLAIM_FOLD,
    "Rule.KEEP": scenario.KEEP,
    "Rule.LEAST_MEMORY": scenario.LEAST_MEMORY,
    "Rule.LONGEST_LIFE": scenario.LONGEST_LIFE,
    "Rule.MAX_VOTERS": scenario.MAX_MIN_VOTERS,
    "Rule.MAX_WEIGHT": scenario.MAX_WEIGHT,
    "Rule.MAX_DURATION": config_values.MAX_DURATION,
    "Rule.LEAST_PERIOD": scenario.LEAST_PERIOD,
    "Rule.MAX_RUNS": scenario.MAX_RUNS,
    "Rule.MAX_RULE_TASKS": scenario.MAX_RULE_TASKS,
    "Rule.ACTIONS": list(scenario.ACTIONS),
    "Rule.UNITS": config_values._UNITS,
    "Rule.NAME": scenario_parser._NAME,
    "Rule.DURATION": config_values._DURATION,
    "Rule.FUNCTION": python_rules._NAME,
    "Rule.FRACTION": scenario_parser._FRACTION,
    "Rule.COLOURS": list(scenario.COLOURS),
    "Rule.ICONS": list(scenario.ICONS),
    "Run.HEARTBEAT_MS": processor.HEARTBEAT_MS,
    "Run.META_PLAIN": state_codec.META_PLAIN,
    "Run.META_MUTES": state_codec.META_MUTES,
    "Sink.MAX_DEAD_VALUE": sink.MAX_DEAD_VALUE,
    "Source.MAX_RECORD": source.MAX_RECORD,
    "Source.MAX_BRACKETS": source.MAX_BRACKETS,
    "Source.MAX_DETAIL": source.MAX_DETAIL,
    "Source.MAX_REASON": source.MAX_REASON,
    "Source.MAX_FOLD": source.MAX_FOLD,
    "Source.MAX_TIME": source.MAX_TIME,
    "Source.COMMANDS": list(records.COMMAND_KINDS),
    "Source.UUID": source._UUID,
    "Tally.UNREADABLE": records.UNREADABLE,
    "Tasks.RULE_OWNER": tasks.RULE_OWNER,
    "Tasks.NOT_MET": records.NOT_MET,
    "Tasks.ENDLESS": tasks.ENDLESS,
    "Tasks.MAX_TASKS": records.MAX_TASKS,
    "Trust.MAX_SKEW": signature.MAX_SKEW,
    "Trust.TAG": signature._TAG,
    "Trust.MEMBER": signature._MEMBER,
    "Trust.TEXT": signature._TEXT,
    "Votes.MAX_VOTERS": records.MAX_VOTERS,
}
"""What both have: the kernel's name, and the fold's value."""

KERNEL_ALONE = {
    "Asset.FEW", "Assets.MAX_READ", "BatchLength.COLD_MS", "BatchLength.SHORTEST_MS",
    "BlockReader.FULL", "BlockSink.SCHEMA", "BlockSource.SCHEMA",
    "Gateway.MODULE_OPTIONS", "Gateway.SESSION",
    "JsonBytes.DIGITS", "Lease.LOOK_MS", "Lease.LOST", "NameSet.LEAST", "SinkBlock.FULL",
    "Texts.BITS", "Texts.LONGEST",
    "Texts.OWN", "TimerLog.CHUNK", "TimerLog.HEAD", "TimerLog.LEAST",
    "Json.MAX_DIGITS", "Kernel.HEADER",
    "Lateness.AGE", "Lateness.AHEAD", "Forward.DIGITS",
    "Kernel.KEPT", "Kernel.SINK", "LocalCheckpoint.BUFFER", "LocalCheckpoint.SETTING",
    "Executors.FINDINGS", "Executors.KNOWN", "Keys.NEVER", "Keys.READ",
    "ObjectCheckpoint.CONDITIONAL", "ObjectCheckpoint.SCHEME", "Rule.NONE", "Run.HOST",
    "RowChannel.MOST_BYTES", "RowChannel.PATIENCE_MS", "Run.META_LATENESS",
    "SharedStorage.CHECKPOINT", "SharedStorage.FOLDER", "SharedStorage.GIVE_UP_MS",
    "SharedStorage.KEYS", "SharedStorage.LOGGING", "SharedStorage.OWN_LOGGING",
    "SharedStorage.PAUSE_MS", "SharedStorage.TOKEN",
    "Source.TICK", "Source.VERSION", "SuppressedOutput.MAX_FRESH", "Tally.NONE",
}  # fmt: skip
"""How it keeps and reads what the fold has as objects: its stand-in for None, caches, codecs."""

COPIES = {
    f"{name}.NONE" for name in ("Asset", "Bucket", "Commands", "Source", "Tasks", "Votes")
} | {f"Asset.NO_{what}" for what in ("VOTES", "WAITS", "ANSWERS", "TASKS", "DOUBTS")}

FOLD_ALONE = {
    "CAUSE_TYPES", "DEAD_LETTER_REASONS", "VOTE_DOUBTS", "DOUBT_REASONS",  # compared below
    "PASSING_DOUBTS",
    "LETTER_REASONS", "SCHEMA_MISMATCH", "SET_ASIDE",  # of records that no fold meets
    "ALARMING",  # of what pages call an incident
    "INCIDENT", "LINK_PLACE", "MAX_DETAILS", "MAX_LINKS",  # of what boards show
    "CONTROL", "MAX_PART", "ROOM", "UNSIGNED", "BAD", "EXPIRED_KEY", "UNTIMELY", "FAULTS",
    "TYPE_CHECKING", "LOG_REPLACED",
    "STATE_COMMANDS",  # compared below
}  # fmt: skip

MIRRORED = {
    "Adoption": adoption, "Asset": asset, "Bucket": fold, "Commands": commands,
    "Doubts": doubts, "Lateness": lateness, "Mutes": mutes, "Names": names, "Tally": tally,
    "Tasks": tasks,
    "Timers": timers,
    "Transitions": transitions, "Votes": votes,
}  # fmt: skip


def kernel_constants() -> dict[str, str]:
    """Every constant of the kernel, by class and name: its value as Java writes it."""
    constants = {}
    for name, text in JAVA.items():
        for type_, declared in CONSTANT.findall(text):
            several = type_ in ("int", "byte", "long")
            parts = re.split(r",\s+(?=[A-Z_]+ =)", declared) if several else [declared]
            for part in parts:
                constant, _, value = part.partition(" =")
                constants[f"{name}.{constant}"] = value.strip()
    return constants


def value_of(java: str) -> Any:
    """The value of a constant as Python has it; of a pattern its text."""
    texts = [ast.literal_eval(each) for each in TEXT.findall(java)]
    if java.startswith("Map.of("):
        numbers = [int(each.replace("_", "")) for each in re.findall(r"\b([\d_]+)L", java)]
        return dict(zip(texts, numbers, strict=True))
    if java.startswith(("List.of(", "Set.of(")):
        return texts
    if java.startswith("bytes("):
        return texts[0].encode()
    if texts:
        return texts[0]
    product = 1
    for factor in java.split("*"):
        product *= int(factor.strip().removesuffix("L").replace("_", ""))
    return product


def text_of(value: Any) -> Any:
    """A pattern's text without its end, which Java's `matches` has of itself; else the value."""
    if not isinstance(value, re.Pattern):
        return value
    text = value.pattern.decode() if isinstance(value.pattern, bytes) else value.pattern
    return text.removesuffix(r"\Z")


@pytest.mark.parametrize("name", SHARED)
def test_a_shared_constant_has_one_value(name: str) -> None:
    assert value_of(kernel_constants()[name]) == text_of(SHARED[name])


def test_every_constant_of_the_kernel_is_known_here() -> None:
    assert set(kernel_constants()) == {*SHARED, *KERNEL_ALONE, *COPIES}


def test_every_constant_of_the_fold_is_known_here() -> None:
    shared = {name.partition(".")[2] for name in SHARED}
    renamed = {"USER_PREFIX", "MAX_MIN_VOTERS", "COMMAND_KINDS", "CODEC"}
    modules = [*MIRRORED.values(), records, scenario, source]
    assert {
        name
        for module in modules
        for name in assigned(module)
        if name not in shared | renamed | FOLD_ALONE
    } == set()


def assigned(module: ModuleType) -> set[str]:
    """The public constants that a module assigns itself."""
    return {
        target.id
        for node in ast.parse(Path(str(module.__file__)).read_text()).body
        if isinstance(node, (ast.Assign, ast.AnnAssign))
        for top in (node.targets if isinstance(node, ast.Assign) else [node.target])
        for target in (top.elts if isinstance(top, ast.Tuple) else [top])
        if isinstance(target, ast.Name) and re.fullmatch(r"[A-Z][A-Z_]+", target.id)
    }


def texts_in(name: str, before: str) -> set[str]:
    """The texts in a class of the kernel that follow this pattern."""
    return set(re.findall(rf'{before}"([^"\n]+)"', JAVA[name]))


def test_both_refuse_records_for_the_same_reasons() -> None:
    refused = texts_in("Source", r"Unreadable\(") | texts_in("Bucket", r"dead\(")
    refused |= words_in("Source", "return ") | words_in("Trust", r"(?:return|\?|:) ")
    assert refused == set(records.DEAD_LETTER_REASONS)


def words_in(name: str, before: str) -> set[str]:
    """Of the texts in a class of the kernel that follow this pattern those of one word."""
    return {text for text in texts_in(name, before) if " " not in text}


def test_both_doubt_for_the_same_reasons() -> None:
    """A vote by its own report; an agent by what was late, or was refused for state or time."""
    constants = kernel_constants()
    named = [*re.findall(r"\bDoubts\.([A-Z_]+)\b", JAVA["Bucket"]), "RENAMED"]
    reasons = {value_of(constants[f"Doubts.{name}"]) for name in named}
    reasons |= words_in("Source", "return ") | words_in("Source", r"\.whole \? .* : ")
    assert reasons == {*records.VOTE_DOUBTS, *records.DOUBT_REASONS}


def test_both_have_the_same_causes() -> None:
    timed = set(value_of(kernel_constants()["Asset.TIMER_TYPES"])) - {"forget"}
    named = texts_in("Bucket", r"cause\(") | texts_in("Bucket", r"REFUSED\) \? ")
    of_commands = set(records.STATE_COMMANDS) | texts_in("Commands", r"\? ")
    assert named | timed | of_commands == set(records.CAUSE_TYPES)


@pytest.mark.parametrize("name", ["Commands", "Rule", "Tally", "Tasks"])
def test_both_say_the_same_in_words(name: str) -> None:
    """Why a command is refused or a task set aside, and why a state is unconfirmed."""
    written = Path(str({**MIRRORED, "Rule": scenario}[name].__file__)).read_text()
    sentences = {text for text in texts_in(name, "return ") if " " in text}
    assert len(sentences) > 1
    assert sentences == set(re.findall(r'return "([^"]+ [^"]+)"', written))
