"""What the board sends that commands something is signed; what it reads is judged by that."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from bus.base import ConsumerRecord
from dashboard.board.assets.log_records import show
from dashboard.core.audit.log import Actor
from dashboard.core.audit.models import AuditEntry
from dashboard.core.common import kafka
from dashboard.core.job import requests
from dashboard.core.rules.log_replay import PartitionReplay
from dashboard.operate.dead_letters.ingestion import ingest_letters
from dashboard.operate.dead_letters.models import REDRIVEN, DeadLetter
from dashboard.watch.agents import mutes
from dashboard.watch.agents.models import MuteRequest
from dashboard.watch.commands import submission
from domain.records import Command, Mute
from domain.scenario_parser import scenario_from_plain
from support.web.web_fixtures import make_user
from support.web.world import World
from wire.keys import KeyFile, Ring
from wire.partitioner import partition_of
from wire.signature import UNSIGNED, UNTIMELY
from wire.source import encode_command, encode_scenario

pytestmark = pytest.mark.django_db
TOPIC = "attack.reports"
ID = "0b8f7e0c-51a3-4f0e-9d3e-6a8a3a1f2c55"
FORGED = encode_command(Command("purge", "shop", ID, "admin", "trust me"))


def log_of(world: World, topic: str, kinds: tuple[bytes, ...]) -> list[ConsumerRecord]:
    """The records of a topic that are of these kinds."""
    edges = world.bus.offsets([topic])
    messages = world.bus.reader(dict.fromkeys(edges, 0)).poll(0, 100_000)
    return [
        m for m in messages if json.loads(m.value or b"{}").get("type", "ask").encode() in kinds
    ]


def faults(messages: list[ConsumerRecord]) -> list[str | None]:
    return [kafka.trust(m.topic).fault(m.key, m.value or b"", m.timestamp) for m in messages]


def pin(asset: str = "shop") -> Command:
    return Command("set", asset, str(uuid.uuid4()), "olga", "a drill", "clear")


def test_commands_mutes_and_asks_are_signed(world: World) -> None:
    user, rule, now = make_user("admin"), world.job.scenarios["attack"], kafka.now_ms()
    actor = Actor(user.pk, user.username, "admin", "page")
    by = submission.Submitter(user, actor, "form")
    submission.submit(rule, replace(pin(), user="admin"), by)
    mute = Mute("waf-7", None, "admin", "wild", str(uuid.uuid4()))
    mutes.send(rule, MuteRequest.objects.keep(rule.name, mute, user, now), Actor.system("test"))
    requests.send("kernel", "stop", user, now, reason="a drill")
    messages = log_of(world, TOPIC, (b"set", b"mute"))
    messages += log_of(world, world.gateway.topics.control, (b"ask",))
    assert len(messages) == 1 + rule.partitions + 1
    assert faults(messages) == [None] * len(messages)


def test_where_the_brokers_clock_is_another_one_a_command_is_signed_by_it(world: World) -> None:
    to = world.gateway
    world.later(86_400_000)
    for asset in ("one", "two"):
        to.command(TOPIC, asset.encode(), encode_command(pin(asset)))
    messages = log_of(world, TOPIC, (b"set",))
    assert sorted(map(str, faults(messages))) == ["None", "None", UNTIMELY]


def test_a_portion_that_a_wrong_clock_has_signed_is_signed_anew(world: World) -> None:
    world.later(86_400_000)
    deliveries = submission.send("attack", [pin("one"), pin("two")])
    assert [delivery.status for delivery in deliveries] == ["sent", "sent"]
    fault_texts = sorted(map(str, faults(log_of(world, TOPIC, (b"set",)))))
    assert fault_texts == ["None", "None", UNTIMELY, UNTIMELY]


def refused_letter() -> DeadLetter:
    """That the forged record was refused."""
    return DeadLetter(
        reason=UNSIGNED, scenario="attack", topic=TOPIC, partition=partition_of(b"shop", 4),
        offset=0, appended_at=kafka.now_ms(), key=b"shop", value=FORGED, headers="[]",
        size=len(FORGED), whole=True, asset="shop", dead_partition=0, dead_offset=0, noted_at=1,
        last_dead_offset=0,
    )  # fmt: skip


def test_a_redrive_signs_what_an_admin_words_and_nothing_else(world: World, admin: Client) -> None:
    world.gateway.producer().send_and_wait(TOPIC, b"shop", FORGED)
    ingest_letters([refused_letter()])
    url = f"/dead-letters/{DeadLetter.objects.get().pk}/"
    refused = admin.post(f"{url}redrive/", {"key": "shop", "value": FORGED.decode()})
    assert refused.status_code == 422
    assert "Not sent: unsigned" in refused.content.decode()
    worded = FORGED.replace(b"trust me", b"I looked") + b"\n"
    admin.post(f"{url}redrive/", {"key": "shop", "value": worded.decode()})
    assert DeadLetter.objects.get().status == REDRIVEN
    messages = log_of(world, TOPIC, (b"purge",))
    assert sorted(map(str, faults(messages))) == ["None", UNSIGNED]


def test_who_reads_the_log_again_refuses_what_the_job_refused(world: World) -> None:
    rule = world.job.scenarios["attack"]
    signer, replay = world.gateway.signer, PartitionReplay("attack", 0, 1)
    now = kafka.now_ms()
    values = [
        (None, signer.sign(encode_scenario(rule), TOPIC, None)),
        (b"shop", FORGED),
        (b"shop", signer.sign(encode_command(pin()), TOPIC, b"shop")),
        (None, encode_scenario(scenario_from_plain({**rule.to_plain(), "commands": "any"}))),
        (b"shop", FORGED),
    ]
    for offset, (key, value) in enumerate(values):
        replay.feed(ConsumerRecord(TOPIC, 0, offset, now, key, value, ()))
    [last] = replay.last.values()
    assert (last.cause.type, last.version.offset) == ("set", 2)
    assert replay.bucket is not None
    assert replay.bucket.scenario == rule


def test_the_page_of_a_record_says_that_it_bears_none_and_that_it_was_refused(
    world: World,
) -> None:
    message = ConsumerRecord(
        TOPIC, partition_of(b"shop", 4), 0, kafka.now_ms(), b"shop", FORGED, ()
    )
    assert show(message, 4).facts[-1] == ("signature", "none")
    assert not show(message, 4).refused  # as its rule took it
    ingest_letters([refused_letter()])
    assert show(message, 4).refused


def keys(*arguments: str) -> list[str]:
    out = StringIO()
    call_command("command_keys", *arguments, stdout=out)
    return out.getvalue().splitlines()


def test_keys_are_listed_rotated_and_retired_and_no_secret_is_shown(
    settings,
    tmp_path,
) -> None:
    path = tmp_path / "keys.json"
    settings.TALLYBOARD = settings.TALLYBOARD.model_copy(update={"command_keys": path})
    [first] = keys("list")
    name = first.split()[0]
    assert first == f"{name} counts from always, signs now"
    rotated = keys("rotate")
    assert [line.endswith("signs now") for line in rotated] == [True, False]
    retired = keys("retire", name)
    assert [line.endswith("signs now") for line in retired] == [False, False, True]
    ring: Ring = KeyFile(path).ring()
    assert not any(key.secret in "".join(first + "".join(retired)) for key in ring.keys)
    assert list(AuditEntry.objects.order_by("number").values_list("action", "target")) == [
        ("keys.rotated", ring.keys[1].id),
        ("keys.retired", name),
    ]
    for wrong in (("retire", "x"), ("retire", name, "--since", "2999-01-01T00:00:00Z")):
        with pytest.raises(CommandError, match="expected"):
            keys(*wrong)
