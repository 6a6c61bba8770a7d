"""What outsiders do for an hour: to topics, alerts, clocks, processes. Every red is shown or named.

Each act is drawn by a seeded chance. After each report of something bad the asset is red, disputed
or, while the job cannot go on, a banner says so.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from support.run.stack import Stack, wait_until
from wire.partitioner import partition_of

SECONDS = int(os.environ.get("OUTSIDE_ACTS_S", "3600"))
SEED = int(os.environ.get("OUTSIDE_ACTS_SEED", "1"))
SHOWN_S = 90.0
"""So long after a report an asset may be neither red nor named: processes are killed meanwhile."""
TOPIC, PARTITIONS, MOST_PARTITIONS = "lab.reports", 2, 5
SCENARIOS = f"""\
[lab]
partitions = {PARTITIONS}
vote_lifetime = "6h"
states = [{{ name = "bad" }}, {{ name = "good" }}]
rule = {{ kind = "latest" }}
"""
RULES = "/api/v1/notifications/rules"
PROCESSES = ("job", "materialiser", "web", "worker", "notifier", "broker")


class Trial:
    """A running copy, and who does something to it."""

    def __init__(self, stack: Stack, client: httpx.Client) -> None:
        self.stack, self.client, self.chance = stack, client, random.Random(SEED)
        broker: str | int | float | bool = f"127.0.0.1:{stack.settings.kafka_port}"
        options = {"bootstrap.servers": broker, "log_level": 0}
        self.producer = Producer({**options, "message.timeout.ms": 60_000})
        self.admin = AdminClient(options)
        self.token = stack.manage("token", "admin", "--label", "trial").stdout.split()[-1]
        self.assets: list[str] = []
        self.acts: Counter[str] = Counter()
        self.number = 0
        self.rule = ""
        self.slowest = 0.0

    # ---- reports of something bad ---------------------------------------------------------------

    def asset(self) -> str:
        self.number += 1
        return f"asset-{self.number}"

    def produce(self, key: str | None, partition: int | None = None, **fields: object) -> None:
        value = json.dumps({"type": "report", "state": "bad", **fields}).encode()
        at = -1 if partition is None else partition  # -1: the client's own partitioner
        self.producer.produce(TOPIC, value, key and key.encode(), at)
        assert self.producer.flush(60) == 0

    def any_partition(self, asset: str) -> None:
        """As a client with another partitioner does."""
        self.produce(asset, agent=f"waf-{self.chance.randrange(4)}")

    def without_a_key(self, asset: str) -> None:
        self.produce(None, asset=asset, agent="probe")

    def clock_ahead(self, asset: str) -> None:
        at = int(time.time() * 1000) + self.chance.randrange(1, 90) * 60_000
        self.produce(asset, partition_of(asset.encode(), PARTITIONS), agent="fast", reported_at=at)

    def clock_behind(self, asset: str) -> None:
        at = int(time.time() * 1000) - self.chance.randrange(1, 300) * 60_000
        self.produce(asset, agent="slow", reported_at=at)

    def with_rubbish(self, asset: str) -> None:
        """With a detail that is no JSON."""
        value = b'{"type":"report","agent":"odd","state":"bad","detail":{"x":NaN}}'
        self.producer.produce(TOPIC, value, asset.encode())
        assert self.producer.flush(60) == 0

    def alerts(self, asset: str) -> None:
        """One alert fires, another of the same name is resolved, in any order."""
        labels = {"alertname": "Disk", "instance": asset, "severity": "page"}
        body = [
            {
                "status": status,
                "labels": {**labels, "disk": status},
                "startsAt": "2026-11-23T12:00:00Z",
                "fingerprint": f"{asset}-{status}",
            }
            for status in ("firing", "resolved")
        ]
        self.chance.shuffle(body)
        path = "/api/v1/scenarios/lab/alertmanager?asset=instance&map=page:bad"
        answer = self.rest("POST", path, json={"version": "4", "alerts": body})
        assert answer.status_code == 202, answer.text

    def by_rest(self, asset: str) -> None:
        body = {"asset": asset, "agent": "rest", "state": "bad"}
        answer = self.rest("POST", "/api/v1/scenarios/lab/reports", json=body)
        assert answer.status_code == 202, answer.text

    def rest(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Ask until a process answers that may have been killed just now."""
        headers, deadline = {"Authorization": f"Bearer {self.token}"}, time.monotonic() + 60
        while True:
            try:
                answer = self.client.request(method, path, headers=headers, **more)
            except httpx.HTTPError:
                assert time.monotonic() < deadline
                time.sleep(0.5)
                continue
            if answer.status_code < 500 or time.monotonic() > deadline:
                return answer
            time.sleep(0.5)

    # ---- what else happens ----------------------------------------------------------------------

    def topic_created_again(self) -> None:
        """And longer than before, so that nothing but its id tells."""
        self.admin.delete_topics([TOPIC])[TOPIC].result(30)
        self.assets.clear()  # their reports are gone
        wait_until(self._there, 60, "the topic is not there again")
        for number in range(300):
            value = json.dumps({"type": "report", "agent": "filler", "state": "good"}).encode()
            self.producer.produce(TOPIC, value, f"filler-{number % 50}".encode())
        assert self.producer.flush(60) == 0

    def _there(self) -> bool:
        """Whether the job has created it again, as it makes missing topics."""
        return bool(self.admin.list_topics(timeout=10).topics.get(TOPIC))

    def partition_added(self) -> None:
        known = len(self.admin.list_topics(timeout=10).topics[TOPIC].partitions)
        if known < MOST_PARTITIONS:
            self.admin.create_partitions([NewPartitions(TOPIC, known + 1)])[TOPIC].result(30)

    def retention(self) -> None:
        """All that there is has been deleted; the job may have read it or not."""
        time.sleep(self.chance.choice((0, 3)))
        self.shown()
        known = self.admin.list_topics(timeout=10).topics[TOPIC].partitions
        ends = [TopicPartition(TOPIC, at, -1) for at in known]
        for future in self.admin.delete_records(ends).values():
            future.result(30)

    def process_killed(self) -> None:
        self.stack.kill(self.chance.choice(PROCESSES))

    def make_rule(self) -> None:
        """Have a rule tell of everything, by a channel whose receiver is nobody."""
        given = {"name": "nobody", "address": "nobody@example.invalid"}
        given |= {"most": "60", "window": "1h", "enabled": "on"}
        page = self._sent("/notifications/channels/new/mail/", given)
        numbers = re.findall(r"/notifications/channels/([0-9]+)/", page)
        assert numbers, page[:2000]
        body = {"name": "All", "definition": {"stages": [{"channels": [max(map(int, numbers))]}]}}
        answer = self.rest("POST", RULES, json=body)
        assert answer.status_code == 200, answer.text
        self.rule = f"{RULES}/{answer.json()['id']}"

    def rule_switched(self) -> None:
        rule = self.rest("GET", self.rule).json()
        # Of whichever revision: it is sent again where a process was killed before it answered.
        switched = {**rule, "enabled": not rule["enabled"], "revision": None}
        answer = self.rest("PUT", self.rule, json=switched)
        assert answer.status_code == 200, answer.text

    # ---- the oracle -----------------------------------------------------------------------------

    def shown(self) -> None:
        """Fail unless every asset that something bad was said of is red, disputed or named."""
        begun = time.monotonic()
        waiting = list(self.assets)
        while waiting and time.monotonic() - begun < SHOWN_S:
            waiting = [asset for asset in waiting if not self._red(asset)]
            if waiting and self._banner("The job waits"):
                self._read_new_log()
                begun = time.monotonic()
            time.sleep(0.2)
        assert not waiting, f"{waiting[:5]} are calm after {SHOWN_S:g} s: {self.acts}"
        self.slowest = max(self.slowest, time.monotonic() - begun)

    def _red(self, asset: str) -> bool:
        answer = self.rest("GET", f"/api/v1/scenarios/lab/assets/{asset}")
        if answer.status_code != 200:
            return False
        row = answer.json()
        return "bad" in (row["state"], row.get("disputed"))

    def _sent(self, address: str, given: dict[str, str], action: str = "") -> str:
        """Send a page's form as a browser does, and return the page that answers."""
        page = self.client.get(address).text
        fields = dict(re.findall(r'<input type="hidden" name="([\w-]+)" value="([^"]*)"', page))
        own = {"Referer": self.stack.url}
        answer = self.client.post(action or address, data=fields | given, headers=own)
        assert answer.status_code == 200, answer.text[:2000]
        return answer.text

    def _banner(self, words: str) -> bool:
        return words in self.rest("GET", "/s/lab/").text

    def _read_new_log(self) -> None:
        """Do what the banner leads to: review the replay of the new log, and confirm it."""
        address = "/replay/?query=kernel&scenario=lab&start=earliest"
        given = {"typed": "lab", "reason": "the topic was created again"}
        self._sent(address, given, "/replay/start/")
        wait_until(lambda: not self._banner("The job waits"), 120, "the new log is not read")

    def round(self) -> None:
        """Say something bad in some way, do something else now and then, and look."""
        say = self.chance.choice(
            [
                self.any_partition, self.without_a_key, self.clock_ahead, self.clock_behind,
                self.with_rubbish, self.alerts, self.by_rest,
            ]
        )  # fmt: skip
        act: Callable[[], None] | None = self.chance.choice(
            [
                None, None, None, None, None, None, self.partition_added, self.retention,
                self.process_killed, self.process_killed, self.rule_switched,
                self.topic_created_again,
            ]
        )  # fmt: skip
        if act is not None:
            self.acts[act.__name__] += 1
            act()
        for _ in range(self.chance.randrange(1, 4)):
            asset = self.asset()
            self.acts[say.__name__] += 1
            say(asset)
            self.assets.append(asset)
        self.shown()


@pytest.fixture
def trial(tmp_path: Path, jars_dir: Path) -> Iterator[Trial]:
    file = tmp_path / "scenarios.toml"
    file.write_text(SCENARIOS)
    own = Stack(tmp_path / "data", jars_dir=jars_dir, scenarios=file, only=PROCESSES)
    own.start(300)
    with own.logged_in("admin") as client:
        trial = Trial(own, client)
        trial.make_rule()
        yield trial
    own.stop()


@pytest.mark.long
@pytest.mark.timeout(SECONDS + 900)
def test_every_red_is_on_the_board_or_named_in_a_banner(trial: Trial) -> None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        try:
            trial.round()
        except KafkaException as error:  # the broker was killed: what was to be done is not done
            trial.acts[f"not done: {error.args[0].name()}"] += 1
    trial.shown()
    print(f"{trial.acts}; slowest {trial.slowest:.0f} s")
    assert trial.number > SECONDS / 10
