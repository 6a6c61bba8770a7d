"""`python -m streaming.pipelines`: run the pipelines that are on, until SIGTERM or SIGINT.

With `--list` it writes every declared pipeline as a line of JSON instead, and whether it is on.
"""

from __future__ import annotations

import json
import os
import sys
import threading

from bus.kafka import KafkaBus
from config.entry import enter
from config.logs import configure_logs
from config.pulse import Pulse
from config.settings import Settings, load_settings
from domain.scenario import ScenarioError
from streaming.fold.rules import read_book
from streaming.kernel import KernelProblem
from streaming.pipelines import query as queries
from streaming.pipelines.declaration import DeclarationError, Pipeline
from streaming.pipelines.registry import chosen, declared
from streaming.pipelines.supervisor import PipelineSupervisor
from streaming.requests.queue import RequestAuthenticator
from streaming.spark.jvm import JvmLost, end_spark
from streaming.spark.restart_policy import stop_on_signals
from streaming.spark.run_loop import BEAT_S, run_all
from streaming.spark.session import VersionProblem, start_session
from streaming.state.storage import LocalPath
from wire.keys import KeyFile
from wire.topics import Topics

FOLDER = "pipelines"
# How far behind the job the pipelines stand when both want the processor.
NICE = 10


def main() -> None:
    """Run the pipelines. Ends with one message when they cannot start, or their JVM is lost."""
    if sys.argv[1:] == ["--list"]:
        _list(load_settings())
        return
    settings = enter()
    configure_logs(settings.log_level, "pipelines")
    stop = threading.Event()
    stop_on_signals(stop)
    os.nice(NICE)
    try:
        pipelines = chosen(settings.pipelines, declared())
        _run(settings, pipelines, stop)
    except (DeclarationError, ScenarioError, VersionProblem, KernelProblem, JvmLost) as problem:
        sys.exit(f"pipelines: {problem}")


def _run(settings: Settings, pipelines: dict[str, Pipeline], stop: threading.Event) -> None:
    pulse = Pulse(settings.data_dir, "pipelines")
    if not pipelines:
        while not stop.wait(BEAT_S):
            pulse.beat()
        return
    room = sum(pipeline.parallelism.slots for pipeline in pipelines.values())
    book = read_book(settings)
    own = {
        "data_dir": settings.data_dir / FOLDER,
        "spark_master": settings.pipelines_master,
        "spark_memory": settings.pipelines_memory,
        "spark_ui_port": 0,
        "checkpoint": None,  # the job's; those of pipelines are below the data directory
    }
    spark = start_session(settings.model_copy(update=own), room)
    bus, topics = KafkaBus(settings.kafka_options()), Topics(settings.topic_prefix)
    keys = KeyFile(settings.command_keys_file).made()
    signed = any(rule.signed_commands for rule in book.rules.values())
    guard = RequestAuthenticator(bus, topics, keys, lambda: signed)
    known = sorted({spec.name[len(topics.prefix) :] for spec in topics.specs(book.rules.values())})
    known += [sink.topic for one in pipelines.values() for sink in one.sinks]
    homes = LocalPath(settings.data_dir / FOLDER / "checkpoint")
    supervisors = [
        PipelineSupervisor(settings, one, bus, spark, stop, homes / one.folder, known, guard)
        for one in pipelines.values()
    ]
    try:
        run_all(supervisors, stop, pulse.beat)
    finally:
        end_spark(spark)


def _list(settings: Settings) -> None:
    pipelines = declared()
    on = chosen(settings.pipelines, pipelines)
    for pipeline in pipelines.values():
        line = {
            "name": pipeline.name,
            "title": pipeline.title,
            "on": pipeline.name in on,
            "reads": [
                *(source.topic for source in pipeline.sources.values()),
                *(table.topic for table in pipeline.global_tables.values()),
            ],
            "writes": queries.outputs(settings, pipeline),
        }
        sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
