"""A store server as a process: `python -m stores --store disk --port 9001`."""

from __future__ import annotations

import argparse
import socket
import sys
from contextlib import ExitStack

import structlog
import uvicorn

from bus.kafka import KafkaBus
from config.entry import enter
from config.logs import configure_logs
from config.settings import LOOPBACK, Settings
from domain.scenario import ScenarioError
from domain.scenario_parser import load_scenarios
from stores.base import AssetTable, StoreProblem
from stores.directory import Directory
from stores.disk_table import DiskTable
from stores.http_app import StoreApp
from stores.memory_table import MemoryTable
from stores.owner_store import OwnerStore
from stores.redis_table import RedisTable
from stores.server import STANDBYS, StoreServer, Taken
from stores.transformation import Transformation, transformation_of
from wire.topics import Topics

log = structlog.get_logger("stores")


def main(arguments: list[str]) -> None:
    """Serve until SIGTERM or SIGINT. Exits with a message if the address is not available."""
    settings, given = enter(), _parser().parse_args(arguments)
    configure_logs(settings.log_level, f"store-{given.port}")
    address = given.address or f"{given.host}:{given.port}"
    listening = _listening(given.host, given.port)
    secret = settings.store_secret()
    scenarios, bus = _scenarios(settings), KafkaBus(settings.kafka_options())
    with ExitStack() as closing:
        try:
            bus.wait(30)
            servers = {
                name: _server(bus, settings, given, address, transformation_of(name), closing)
                for name in scenarios
            }
        except (StoreProblem, Taken) as problem:
            raise SystemExit(str(problem)) from None
        log.info("answers", address=address, keeps=given.store, scenarios=scenarios)
        application = StoreApp(servers, address, secret).application()
        config = uvicorn.Config(application, log_config=None, access_log=False, lifespan="on")
        uvicorn.Server(config).run([listening])


def _scenarios(settings: Settings) -> list[str]:
    """Return the scenarios whose states the server keeps.

    Exits with a message if one is unknown.
    """
    try:
        return settings.stored(load_scenarios(settings.scenarios, demo=settings.demo))
    except (ScenarioError, ValueError) as error:
        raise SystemExit(str(error)) from None


def _server(
    bus: KafkaBus,
    settings: Settings,
    given: argparse.Namespace,
    address: str,
    kept: Transformation,
    closing: ExitStack,
) -> StoreServer:
    """Return the server of a scenario, started and in its group. Raises StoreProblem, Taken."""
    topics, secret = Topics(settings.topic_prefix), settings.store_secret()
    group, topic = topics.store_group(kept.scenario), topics.states(kept.scenario)
    directory = Directory(bus, group, topic, secret)
    table = _table(given.store, settings, address, directory, kept)
    closing.callback(table.close)
    others = OwnerStore(directory, secret, kept)
    closing.callback(others.close)
    server = StoreServer(
        bus, directory, table, address, others, kept, keeps=given.store, standbys=given.standbys
    )
    server.start()
    return server


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m stores", description=__doc__)
    parser.add_argument("--store", choices=("disk", "memory", "redis"), default="disk")
    parser.add_argument("--host", default=LOOPBACK, help="where it listens")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--address", default="", help="host:port at which others reach it")
    parser.add_argument("--standbys", type=int, default=STANDBYS, help="servers kept warm for")
    return parser


def _listening(host: str, port: int) -> socket.socket:
    """Return the listening socket, opened before the address is announced."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Declared as TCP, so that asyncio sends each write at once. Otherwise an answer takes 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host.strip("[]"), port))
        listening.listen(1024)
        return listening
    except OSError as error:
        raise SystemExit(
            f"Cannot listen on {host}:{port} ({error.strerror}): use --port."
        ) from None


def _table(
    kind: str, settings: Settings, address: str, directory: Directory, kept: Transformation
) -> AssetTable:
    """Return the table for a server's share.

    Raises StoreProblem; exits if Redis is not configured.
    """
    if kind == "memory":
        return MemoryTable()
    if kind == "disk":
        return DiskTable(settings.data_dir / "stores" / address.replace("/", "_"), kept)
    if settings.redis_url is None:
        raise SystemExit("--store redis: set TALLYBOARD_REDIS_URL to redis://host:port/number")
    prefix = f"{settings.topic_prefix}stores.{address}."
    return RedisTable(settings.redis_url, prefix, directory.partitions(), kept)


if __name__ == "__main__":
    main(sys.argv[1:])
