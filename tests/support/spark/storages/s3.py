"""An S3-compatible server in one process, which keeps its objects in memory."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import urllib.request
from pathlib import Path

from ops.ports import free_port
from support.run.stack import wait_until
from support.spark.storages.archives import HERE, archives

REQUIREMENTS = HERE / "requirements.lock"
BUCKET = "checkpoints"
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}


def _python(jars_dir: Path) -> Path:
    """The Python of an environment of its own (80 MB), made where it is not there."""
    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:16]
    home = jars_dir / "tests" / f"s3-{digest}"
    python = home / "bin" / "python"
    if not (home / "complete").exists():
        uv = [sys.executable, "-m", "uv", "--quiet"]
        subprocess.run([*uv, "venv", "--clear", str(home)], check=True)
        install = ["pip", "install", "--python", str(python), "--require-hashes", "--no-deps"]
        subprocess.run([*uv, *install, "-r", str(REQUIREMENTS)], check=True)
        (home / "complete").touch()
    return python


class MiniS3:
    """The server, with one bucket."""

    def __init__(self, folder: Path, jars_dir: Path) -> None:
        self._folder, self._python, self._port = folder, _python(jars_dir), free_port()
        self.archives = archives("s3", jars_dir)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """The server's address."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def url(self) -> str:
        """The bucket's URL."""
        return f"s3a://{BUCKET}"

    def list_archives(self) -> Path:
        """The list of Hadoop's archives for S3, as an admin would write it."""
        path = self._folder / "jars.sha256"
        done = subprocess.run(
            ["sha256sum", *map(str, self.archives)], check=True, capture_output=True
        )
        path.write_bytes(done.stdout)
        return path

    def configuration(self) -> Path:
        """A folder of Hadoop's configuration that leads here."""
        folder = self._folder / "hadoop"
        folder.mkdir(exist_ok=True)
        options = {
            "fs.s3a.endpoint": self.endpoint,
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.connection.ssl.enabled": "false",
            "fs.s3a.aws.credentials.provider": (
                "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider"
            ),
        }
        lines = [
            f"<property><name>{name}</name><value>{value}</value></property>"
            for name, value in options.items()
        ]
        text = "\n".join(["<configuration>", *lines, "</configuration>", ""])
        (folder / "core-site.xml").write_text(text)
        return folder

    def environment(self) -> dict[str, str]:
        """What a process finds in its environment that keeps checkpoints here."""
        return {**KEYS, "HADOOP_CONF_DIR": str(self.configuration())}

    def start(self) -> None:
        """Start it, and make the bucket."""
        command = [str(self._python), "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self._port)]
        with (self._folder / "s3.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_until(self._answers, 60, "no S3")

    def _answers(self) -> bool:
        request = urllib.request.Request(
            f"{self.endpoint}/{BUCKET}", method="PUT", headers={"Authorization": "AWS key:x"}
        )
        try:
            with urllib.request.urlopen(request, timeout=5):
                return True
        except OSError:
            return False

    def stop(self) -> None:
        """End it, with all that it holds."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
