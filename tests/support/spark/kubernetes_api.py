"""What Spark needs of Kubernetes, played: an API server whose pods are plain processes.

A pod that is created runs the image's entry with the arguments and the environment that its
description has. What was asked, by verb and resource, is kept: a service account must allow it.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ops.leftovers import descendants
from support.run.stack import ROOT

Manifest = dict[str, Any]
ENTRY = ROOT / "ops" / "entrypoint.sh"
PREFIX = "/api/v1/namespaces/"


class KubernetesApi:
    """The API server of one namespace. asked: (verb, resource) of every request."""

    def __init__(self, namespace: str, folder: Path) -> None:
        """folder: for what the pods print and keep."""
        self.namespace, self._folder = namespace, folder
        self.asked: set[tuple[str, str]] = set()
        self.objects: dict[tuple[str, str], Manifest] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._watches: list[queue.SimpleQueue[Manifest | None]] = []
        self._lock, self._version = threading.RLock(), 1
        api = self

        class Handler(_Handler):
            kubernetes = api

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        """End the pods, and the server."""
        with self._lock:
            for watch in self._watches:
                watch.put(None)
        for name in list(self.processes):
            self.kill(name)
        self._server.shutdown()

    def pods(self) -> list[Manifest]:
        """The pods whose processes run, the driver's not among them."""
        with self._lock:
            running = [name for name, process in self.processes.items() if process.poll() is None]
            return [self.objects["pods", name] for name in running]

    def log(self, name: str) -> Path:
        """Return what a pod printed."""
        return self._folder / f"{name}.log"

    # ---- objects --------------------------------------------------------------------------------

    def create(self, resource: str, manifest: Manifest) -> Manifest:
        """Keep an object; run it, if it is a pod that is not the driver's."""
        with self._lock:
            self._version += 1
            metadata = manifest["metadata"]
            metadata |= {
                "uid": f"uid-{self._version}",
                "namespace": self.namespace,
                "resourceVersion": str(self._version),
                "creationTimestamp": "2026-01-01T00:00:00Z",
            }
            self.objects[resource, metadata["name"]] = manifest
            if resource == "pods" and "args" in manifest["spec"]["containers"][0]:
                self._run(manifest)
            if resource == "pods":
                manifest["status"] = _running(manifest)
                self._tell("ADDED", manifest)
            return manifest

    def delete(self, resource: str, name: str) -> None:
        """Remove an object; end its process."""
        with self._lock:
            manifest = self.objects.pop((resource, name), None)
            if manifest is not None and resource == "pods":
                self.kill(name)
                self._tell("DELETED", manifest)

    def _run(self, pod: Manifest) -> None:
        name, (container, *_) = pod["metadata"]["name"], pod["spec"]["containers"]
        own = {"status.podIP": "127.0.0.1", "metadata.name": name}
        environ = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        for variable in container.get("env", ()):
            field = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            environ[variable["name"]] = own[field] if field else variable.get("value", "")
        local = self._folder / f"{name}-local"
        local.mkdir()
        environ["SPARK_LOCAL_DIRS"] = str(local)
        with self.log(name).open("wb") as output:
            self.processes[name] = subprocess.Popen(
                [ENTRY, *container["args"]],
                cwd=ROOT, env=environ, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip

    def fail(self, name: str) -> None:
        """Kill a pod's process, and report that the pod has failed."""
        with self._lock:
            self.kill(name)
            pod = self.objects["pods", name]
            pod["status"]["phase"] = "Failed"
            (status,) = pod["status"]["containerStatuses"]
            status["state"] = {"terminated": {"exitCode": 137, "reason": "Error"}}
            self._tell("MODIFIED", pod)

    def kill(self, name: str) -> None:
        """Kill a pod's process."""
        process = self.processes.pop(name, None)
        if process is None:
            return
        for pid in (process.pid, *descendants(process.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, 9)
        process.wait()

    # ---- watches --------------------------------------------------------------------------------

    def _tell(self, kind: str, pod: Manifest) -> None:
        for watch in self._watches:
            watch.put({"type": kind, "object": json.loads(json.dumps(pod))})

    def watch(self) -> queue.SimpleQueue[Manifest | None]:
        """Return a queue of what happens to pods from now on; None at the end."""
        watch: queue.SimpleQueue[Manifest | None] = queue.SimpleQueue()
        with self._lock:
            self._watches.append(watch)
        return watch

    def listed(self, resource: str, selector: str) -> Manifest:
        """Return the objects with these labels, as a list."""
        with self._lock:
            items = [
                each
                for (kind, _), each in self.objects.items()
                if kind == resource and _selected(each, selector)
            ]
            version = {"resourceVersion": str(self._version)}
            return {"apiVersion": "v1", "kind": "List", "metadata": version, "items": items}


def _selected(manifest: Manifest, selector: str) -> bool:
    """Return whether an object has all labels of a selector of equalities."""
    labels = manifest["metadata"].get("labels", {})
    pairs = (part.partition("=") for part in selector.split(",") if "=" in part)
    return all(labels.get(name.strip("!")) == value.lstrip("=") for name, _, value in pairs)


def _running(pod: Manifest) -> Manifest:
    name = pod["spec"]["containers"][0]["name"]
    running = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    status = {"name": name, "ready": True, "restartCount": 0, "image": "", "imageID": ""}
    containers = [status | {"state": running}]
    return {"phase": "Running", "podIP": "127.0.0.1", "containerStatuses": containers}


class _Handler(BaseHTTPRequestHandler):
    """One request of Spark's client."""

    kubernetes: KubernetesApi
    protocol_version = "HTTP/1.1"

    def _place(self) -> tuple[str, str, dict[str, str]]:
        """Return resource, name and parameters."""
        parts = urlsplit(self.path)
        inner = parts.path.removeprefix(f"{PREFIX}{self.kubernetes.namespace}/")
        resource, _, name = inner.partition("/")
        return resource, name, {key: values[0] for key, values in parse_qs(parts.query).items()}

    def _body(self) -> Manifest:
        length = int(self.headers.get("Content-Length") or 0)
        data = self.rfile.read(length)
        body: Manifest = json.loads(data) if data else {}
        return body

    def _answer(self, manifest: Manifest, status: int = 200) -> None:
        data = json.dumps(manifest).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _missing(self) -> None:
        gone = {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}
        self._answer(gone, 404)

    def do_GET(self) -> None:
        resource, name, more = self._place()
        if more.get("watch") == "true":
            self.kubernetes.asked.add(("watch", resource))
            self._answer({}) if self.headers.get("Upgrade") else self._stream()
        elif name:
            self.kubernetes.asked.add(("get", resource))
            manifest = self.kubernetes.objects.get((resource, name))
            self._answer(manifest) if manifest else self._missing()
        else:
            self.kubernetes.asked.add(("list", resource))
            self._answer(self.kubernetes.listed(resource, more.get("labelSelector", "")))

    def _stream(self) -> None:
        """Send what happens to pods, a line for each event: to who was given no websocket."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        events = self.kubernetes.watch()
        with suppress(OSError):
            while (event := events.get()) is not None:
                line = json.dumps(event).encode() + b"\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")

    def do_POST(self) -> None:
        resource, _, _ = self._place()
        self.kubernetes.asked.add(("create", resource))
        self._answer(self.kubernetes.create(resource, self._body()), 201)

    def do_PATCH(self) -> None:
        resource, name, _ = self._place()
        self.kubernetes.asked.add(("patch", resource))
        manifest, changes = self.kubernetes.objects.get((resource, name)), self._body()
        if manifest is None:
            self._missing()
            return
        if isinstance(changes, dict):
            manifest["metadata"] |= changes.get("metadata", {})
        self._answer(manifest)

    def do_DELETE(self) -> None:
        resource, name, more = self._place()
        self._body()
        self.kubernetes.asked.add(("delete" if name else "deletecollection", resource))
        listed = self.kubernetes.listed(resource, more.get("labelSelector", ""))["items"]
        for each in [name] if name else [item["metadata"]["name"] for item in listed]:
            self.kubernetes.delete(resource, each)
        self._answer({"kind": "Status", "apiVersion": "v1", "status": "Success"})

    def log_message(self, *_parts: Any) -> None:
        """Print nothing."""
