"""supervisord: its configuration, its life as a child process, and the status of the others."""

from __future__ import annotations

import getpass
import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
import xmlrpc.client
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supervisor.xmlrpc import SupervisorTransport

from ops.child import PARENT
from ops.leftovers import MARK, mark_of
from ops.processes import BROKER, GROUP, Process

ROOT = Path(__file__).resolve().parent.parent
LONGEST_SOCKET_PATH = 100


class NotRunning(Exception):
    """No supervisor answers for this data directory."""


def socket_path(data_dir: Path) -> Path:
    """Return the supervisor's socket, which is elsewhere if the data directory's path is too
    long."""
    path = data_dir / "supervisor.sock"
    if len(str(path)) <= LONGEST_SOCKET_PATH:
        return path
    digest = hashlib.sha256(mark_of(data_dir).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"tallyboard-{os.getuid()}-{digest}.sock"


def log_path(data_dir: Path, name: str) -> Path:
    """Return the path of a process's log."""
    return data_dir / "logs" / f"{name}.log"


def configuration(
    data_dir: Path, processes: Iterable[Process], waiting: Collection[Process] = ()
) -> str:
    """Return supervisord's configuration: restart for ever with growing pauses, and rotate logs.

    waiting: processes that start only on request; the others start at once.
    """
    listed = list(processes)
    socket = socket_path(data_dir)
    sections = [
        _section(
            "supervisord",
            nodaemon="true",
            user=getpass.getuser(),
            umask="077",
            directory=ROOT,
            pidfile=data_dir / "supervisord.pid",
            logfile=log_path(data_dir, "supervisord"),
            logfile_maxbytes="5MB",
            logfile_backups="1",
            childlogdir=data_dir / "logs",
            strip_ansi="false",
        ),
        _section("unix_http_server", file=socket, chmod="0600"),
        _section(
            "rpcinterface:supervisor",
            **{"supervisor.rpcinterface_factory": "supervisor.rpcinterface:make_main_rpcinterface"},
        ),
        _section("supervisorctl", serverurl=f"unix://{socket}"),
    ]
    for priority, group in enumerate((BROKER, GROUP), start=1):
        names = [process.name for process in listed if process.group == group]
        if names:
            sections.append(_section(f"group:{group}", programs=",".join(names), priority=priority))
    sections += [_program(process, process not in waiting) for process in listed]
    return "\n".join(sections)


def _program(process: Process, autostart: bool) -> str:
    return _section(
        f"program:{process.name}",
        command=shlex.join([sys.executable, "-m", "ops.child", *process.command]),
        directory=ROOT,
        autostart=str(autostart).lower(),
        autorestart="true",
        umask="077",
        startsecs="3",
        startretries="1000000000",
        stopsignal="TERM",
        stopwaitsecs=process.stop_s,
        killasgroup="true",
        redirect_stderr="true",
        stdout_logfile=f"logs/{process.name}.log",  # supervisord expands a % in here twice
        stdout_logfile_maxbytes="10MB",
        stdout_logfile_backups="3",
    )


def _section(title: str, **entries: object) -> str:
    lines = [f"{name}={str(value).replace('%', '%%')}" for name, value in entries.items()]
    return "\n".join([f"[{title}]", *lines, ""])


def environment(data_dir: Path) -> dict[str, str]:
    """Return the environment inherited by every process of the instance."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {
        **kept,
        MARK: mark_of(data_dir),
        "PYTHONUNBUFFERED": "1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def start_supervisor(
    data_dir: Path, processes: Iterable[Process], waiting: Collection[Process] = ()
) -> subprocess.Popen[bytes]:
    """Start supervisord for these processes; it ends them all when this process dies."""
    path = data_dir / "supervisord.conf"
    path.write_text(configuration(data_dir, processes, waiting))
    socket_path(data_dir).unlink(missing_ok=True)
    (data_dir / "logs").mkdir(exist_ok=True)
    command = [sys.executable, "-m", "ops.child", sys.executable, "-m", "supervisor.supervisord"]
    inherited = environment(data_dir) | {PARENT: str(os.getpid()), "PYTHONPATH": str(ROOT)}
    with log_path(data_dir, "supervisord").open("ab") as log:
        return subprocess.Popen(
            [*command, "-c", str(path)],
            cwd=data_dir,
            env=inherited,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )


@dataclass(frozen=True)
class ProcessStatus:
    """The supervisor's status of a process. started: Unix time, s."""

    name: str
    full_name: str
    state: str
    pid: int
    started: int
    exit_status: int


class Supervisor:
    """The running supervisor of one data directory."""

    def __init__(self, data_dir: Path) -> None:
        self._url = f"unix://{socket_path(data_dir)}"

    def statuses(self) -> dict[str, ProcessStatus]:
        """Return the status of every process by name. Raises NotRunning."""
        return {
            entry["name"]: ProcessStatus(
                entry["name"],
                f"{entry['group']}:{entry['name']}",
                entry["statename"],
                entry["pid"],
                entry["start"],
                entry["exitstatus"],
            )
            for entry in self._call("getAllProcessInfo")
        }

    def start_all(self) -> None:
        """Start all processes that are not running. Raises NotRunning."""
        self._call("startAllProcesses", False)

    def start(self, name: str) -> None:
        """Start a process that was stopped. Raises NotRunning, or KeyError for an unknown name."""
        self._call("startProcess", self.statuses()[name].full_name)

    def stop(self, name: str) -> None:
        """Stop a process until it is started again. Raises the same as `start`."""
        self._call("stopProcess", self.statuses()[name].full_name)

    def _call(self, method: str, *arguments: object) -> list[dict[str, Any]]:
        transport = SupervisorTransport(None, None, serverurl=self._url)
        try:
            proxy = xmlrpc.client.ServerProxy("http://127.0.0.1", transport=transport)
            answer: list[dict[str, Any]] = getattr(proxy.supervisor, method)(*arguments)
            return answer
        except xmlrpc.client.Fault as fault:
            if "ALREADY_STARTED" in fault.faultString or "NOT_RUNNING" in fault.faultString:
                return []
            raise
        except (OSError, xmlrpc.client.ProtocolError) as error:
            raise NotRunning(f"no supervisor answers at {self._url}") from error
        finally:
            transport.close()
