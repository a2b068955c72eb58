"""Container engines of one's own for tests: a real dockerd or Podman, without a network, apart from any other one."""

import io
import os
import shutil
import subprocess
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import httpx2
import psutil

from homeostat.testing.packages import DOCKER, PODMAN, SEARCHED, Needed, ProgramMissing, program
from homeostat.testing.servers import Server, ServerFailed

KEEPERS: Final = frozenset({"containerd-shim", "containerd-shim-runc-v2", "conmon"})
IMAGE: Final = "homeostat-still:latest"  # Podman takes no other tag
LIMITS: Final = [{"Name": name, "Soft": 256, "Hard": 256} for name in ("nofile", "nproc")]  # what any machine can give


class EngineServer(Server):
    """An engine on a directory of its own. Its containers sleep, and have no network."""

    brings_back: bool  # whether it starts containers again when it begins anew

    @classmethod
    def path(cls) -> str:
        """The program, installed where that is allowed; else `ProgramMissing` says why there is none."""
        raise NotImplementedError

    @property
    def socket(self) -> str:
        return str(self.directory / "docker.sock")

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def clear(self) -> None:
        """Remove every container."""
        for one in self.ask("GET", "/containers/json?all=1"):
            self.ask("DELETE", f"/containers/{one['Id']}?force=1")

    def close(self) -> None:
        """No container outlives its engine."""
        if self.running:
            with suppress(httpx2.HTTPError, ServerFailed):
                self.clear()
                self.stop()
        for shim in psutil.process_iter(["cmdline"]):
            if str(self.directory) in " ".join(shim.info["cmdline"] or ()) and shim.name() in KEEPERS:
                for one in (*shim.children(recursive=True), shim):
                    one.kill()
        super().close()

    def ask(self, method: str, path: str, *, body: object = None, content: bytes | None = None) -> Any:
        transport = httpx2.HTTPTransport(uds=self.socket)
        with httpx2.Client(transport=transport, base_url="http://engine", timeout=60) as http:
            headers = {"content-type": "application/x-tar"} if content is not None else {}
            answer = http.request(method, path, json=body, content=content, headers=headers)
            answer.raise_for_status()
            return answer.json() if answer.content and method != "DELETE" and content is None else None

    def still(self, *, seconds: str = "600", **labels: str) -> str:
        """A container that sleeps, and that its engine brings back; returns its id."""
        if not self.ask("GET", "/images/json"):
            name, tag = IMAGE.split(":")
            self.ask("POST", f"/images/create?fromSrc=-&repo={name}&tag={tag}", content=_root())
        body = {
            "Image": IMAGE,
            "Cmd": ["/bin/sleep", seconds],
            "Labels": {name.replace("_", "."): value for name, value in labels.items()},
            "StopSignal": "SIGKILL",
            "HostConfig": {"NetworkMode": "none", "RestartPolicy": {"Name": "always"}, "Ulimits": LIMITS},
        }
        made = self.ask("POST", "/containers/create", body=body)
        self.ask("POST", f"/containers/{made['Id']}/start")
        return made["Id"]

    def state(self, container_id: str) -> str:
        return self.ask("GET", f"/containers/{container_id}/json")["State"]["Status"]


class DockerServer(EngineServer):
    """dockerd, which begins its containers anew when it does."""

    title = "dockerd"
    ready_words = "API listen on"
    brings_back = True

    @classmethod
    def path(cls) -> str:
        return _as_root(DOCKER)

    def command(self) -> list[str]:
        at = self.directory
        for left in (at / "pid", at / "exec/containerd/containerd.pid"):  # whoever was killed leaves word of himself
            left.unlink(missing_ok=True)
        places = ["--data-root", f"{at}/data", "--exec-root", f"{at}/exec", "--pidfile", f"{at}/pid"]
        quiet = ["--storage-driver", "vfs", "--iptables=false", "--ip6tables=false", "--ip-masq=false", "--bridge=none"]
        return [self.path(), "--host", self.url, *places, *quiet]


class PodmanServer(EngineServer):
    """Podman's service, which speaks Docker's language, and whose containers go on without it."""

    title = "podman"
    ready_words = "API service listening on"
    brings_back = False

    @classmethod
    def path(cls) -> str:
        return _as_root(PODMAN)

    def command(self) -> list[str]:
        at = self.directory
        places = ["--root", f"{at}/data", "--runroot", f"{at}/run", "--storage-driver", "vfs"]
        kernel = ["--cgroup-manager", "cgroupfs"]
        if (
            runc := shutil.which("runc", path=SEARCHED)
        ) is not None:  # crun knows no machine with both kinds of cgroups
            kernel += ["--runtime", runc]
        return [self.path(), "--log-level", "info", *places, *kernel, "system", "service", "--time", "0", self.url]


def _as_root(needed: Needed) -> str:
    if os.geteuid() != 0:
        raise ProgramMissing(f"only root can run {needed.programs[0]} as it is tested")
    return program(needed)


def _root() -> bytes:
    """A file system that holds one program that sleeps, and what it needs."""
    told = subprocess.run(["ldd", "/bin/sleep"], capture_output=True, text=True, check=True).stdout  # noqa: S607
    needed = [word for word in told.split() if word.startswith("/")]
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        for path in ["/bin/sleep", *needed]:
            archive.add(Path(path).resolve(), arcname=path.lstrip("/"))
    return held.getvalue()
