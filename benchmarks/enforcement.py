"""How soon an agent is held again whoever begins anew, beside what a bare signal, freeze or pause with its read takes.

A real server, `homeostat exec` and, where root may run one, dockerd. What is held is read here, apart from Homeostat:
in /proc, in the control group, at the engine, and by a call through the gateway. `HOMEOSTAT_BENCH_QUICK=1` takes fewer
rounds.
"""

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2

from benchmarks._measure import Report, heading, wall
from homeostat.adapters.enforcers import cgroup, proc
from homeostat.adapters.enforcers.proc import Named
from homeostat.immune.doctrine import Doctrine
from homeostat.testing.docker import DockerServer
from homeostat.testing.homeostat import HomeostatServer
from homeostat.testing.packages import ProgramMissing

ROUNDS = 3 if os.environ.get("HOMEOSTAT_BENCH_QUICK") == "1" else 5
FLOOR_ROUNDS = 50
LOOK_SECONDS = Doctrine().reconcile_seconds
WAIT_SECONDS_MAX = 60.0
GROUP, SIGNALS, CONTAINER, GATEWAY = "process, cgroup", "process, SIGSTOP", "container", "gateway"
CALL = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "are you there?"}], "max_tokens": 1}

# An agent with two children.
AGENT = """
import subprocess, time
children = [subprocess.Popen(["sleep", "600"]) for _ in range(2)]
time.sleep(600)
"""


class Knowing(HomeostatServer):
    """A server that knows of a container engine, where there is one."""

    def __init__(self, engine: DockerServer | None) -> None:
        super().__init__()
        self._engine = engine

    def command(self) -> list[str]:
        settings = [] if self._engine is None else [f"HOMEOSTAT_DOCKER_SOCKET={self._engine.socket}"]
        return ["env", *settings, *super().command()]


class Bare(Knowing):
    """A server on a machine without control groups of the second kind."""

    def command(self) -> list[str]:
        place = cgroup.mount()
        if place is None:
            return super().command()
        return ["unshare", "--mount", "sh", "-c", 'umount -l "$0" && exec "$@"', str(place), *super().command()]


class Ward:
    """A server, the agent it holds, and somebody who looks for himself."""

    def __init__(self, server: HomeostatServer, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.command: subprocess.Popen[bytes] | None = None
        self.http = httpx2.Client(trust_env=False, timeout=30)
        self.key = ""
        self.windows: dict[str, float] = {}
        self.told: set[str] = set()

    def ask(self, method: str, path: str, **more: Any) -> Any:
        answer = self.http.request(method, self.server.url + path, **more)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def enrol(self, name: str) -> None:
        self.key = self.ask("POST", "/v1/agents/register", json={"agent_id": name, "agent_type": "bench"})["api_key"]

    def quarantine(self, name: str) -> float:
        """Seconds until the receipt is there, which says that it is held."""
        began = wall()
        said = self.ask("POST", f"/v1/agents/{name}/quarantine", json={"reason": "a benchmark"})
        taken = wall() - began
        assert said["receipt"]["effect"] == "enforced", said["receipt"]
        return taken

    def release(self, name: str) -> float:
        began = wall()
        said = self.ask("POST", f"/v1/agents/{name}/release", json={})
        taken = wall() - began
        assert said["receipt"]["effect"] == "enforced", said["receipt"]
        return taken

    def recorded(self) -> float:
        """The longest window that was written down since this was asked last."""
        fresh = self.windows.keys() - self.told
        self.told |= fresh
        return max((self.windows[since] for since in fresh), default=0.0)

    def refused(self) -> bool:
        headers = {"authorization": f"Bearer {self.key}"}
        return self.http.post(f"{self.server.url}/openai/v1/chat/completions", json=CALL, headers=headers).is_error

    def settled(self, name: str) -> bool:
        """Whether Homeostat says so, too; every window that it has written down is kept."""
        receipt = self.ask("GET", f"/v1/agents/{name}/receipt")
        for one in receipt["strategies"]:
            self.windows |= {gap["since"]: _seconds(gap) for gap in one["gaps"] if gap["until"]}
        return receipt["effect"] == "enforced"

    # --- the agent as a process ------------------------------------------------------------------------------

    def begin(self) -> float:
        """Run the agent under `homeostat exec`; when its own process was first seen."""
        environment = {**os.environ, "HOMEOSTAT_URL": self.server.url, "XDG_DATA_HOME": str(self.folder)}
        run = [sys.executable, "-m", "homeostat", "exec", "--agent-id", "agent", "--", sys.executable, "-c", AGENT]
        self.command = subprocess.Popen(run, env=environment, stderr=subprocess.DEVNULL)
        _until(lambda: bool(self.tree()))
        return wall()

    def end(self) -> None:
        if self.command is not None:
            for one in [*self.tree(), *_named([self.command.pid])]:
                proc.send(one, signal.SIGKILL)
            self.command.wait()

    def tree(self) -> list[Named]:
        return [] if self.command is None else proc.descendants([self.command.pid])

    def stands(self) -> bool:
        tree = self.tree()
        return bool(tree) and all(proc.state(one.pid) in proc.RESTING or _frozen(one.pid) for one in tree)

    def wake(self) -> None:
        """What the worst of neighbours can do."""
        for one in self.tree():
            if (group := _group(one.pid)) is not None:
                (group.path / "cgroup.freeze").write_text("0")
            proc.send(one, signal.SIGCONT)
        _until(lambda: not self.stands())


def run() -> None:
    """Print and keep how soon agents are held again."""
    if not hasattr(os, "pidfd_open"):
        print("enforcement: skipped, processes are held by pidfd, which is Linux's")
        return
    report = Report("enforcement")
    heading("enforcement", {"rounds": ROUNDS, "looks every": f"{LOOK_SECONDS:g} s", "cores": os.cpu_count()})
    _floors(report)
    with _engine() as engine:
        for name, server in ((GROUP, Knowing), (SIGNALS, Bare)):
            with ExitStack() as stack:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                ward = Ward(stack.enter_context(server(engine)), folder)
                stack.callback(ward.end)
                _process(report, ward, name)
                if name == GROUP:
                    _gateway(report, ward)
                    if engine is not None:
                        _container(report, ward, engine)
    report.write()


def _process(report: Report, ward: Ward, name: str) -> None:
    ward.begin()
    ward.key = _key_of(ward)
    asked: list[float] = []
    freed: list[float] = []
    for _ in range(ROUNDS):
        _until(lambda: len(ward.tree()) == 3)
        asked.append(ward.quarantine("agent"))
        assert ward.stands(), "the receipt says what is so"
        freed.append(ward.release("agent"))
    if name == GROUP and not _frozen_by_group(ward):
        name = SIGNALS
    _add(report, f"{name}: quarantine to its receipt", asked)
    _add(report, f"{name}: release to its receipt", freed)
    ward.quarantine("agent")
    _again_held(report, ward, f"{name}: woken by a neighbour", _again(ward, "agent", ward.stands, ward.wake))
    _again_held(report, ward, f"{name}: the agent began anew", [_begun_anew(ward) for _ in range(ROUNDS)])
    held: list[float] = []
    served: list[float] = []
    for _ in range(max(3, ROUNDS // 2)):
        ward.server.kill()
        ward.wake()
        began = wall()
        ward.server.start()
        served.append(wall() - began)
        assert ward.stands(), "it is held before anything is served"
        assert ward.refused(), "the gateway refuses from the first call on"
        held.append(min(served[-1], _since(ward, began)))
    _again_held(report, ward, f"{name}: Homeostat began anew", held, served_seconds=statistics.median(served))
    strategies = ward.ask("GET", "/v1/agents/agent/receipt")["strategies"]
    gates = {one["strategy"]: one["gaps_count"] for one in strategies if one["strategy"] in {"gateway", "kernel"}}
    report.add("gateway and kernel: Homeostat began anew", windows=sum(gates.values()), restarts=len(held))


def _since(ward: Ward, began: float) -> float:
    """From a moment to the read-back that the receipt tells, by the wall's clock."""
    receipt = ward.ask("GET", "/v1/agents/agent/receipt")
    (until,) = [one["gaps"][-1]["until"] for one in receipt["strategies"] if one["strategy"] == "process"]
    now, then = time.time(), datetime.fromisoformat(until).timestamp()
    ward.settled("agent")
    return wall() - began - (now - then)


def _gateway(report: Report, ward: Ward) -> None:
    def lose() -> None:
        ward.ask("DELETE", "/v1/policies/immune.hold.agent")

    def there() -> bool:
        return any(one["agent_id"] == "agent" for one in ward.ask("GET", "/v1/policies")["policies"])

    _again_held(report, ward, f"{GATEWAY}: its rule was lost", _again(ward, "agent", there, lose))
    assert ward.refused(), "a rule that is there is in force"


def _container(report: Report, ward: Ward, engine: DockerServer) -> None:
    ours = engine.still(homeostat_agent="boxed")
    ward.enrol("boxed")

    link = httpx2.Client(transport=httpx2.HTTPTransport(uds=engine.socket), base_url=f"http://engine/containers/{ours}")

    def paused() -> bool:
        return link.get("/json").json()["State"]["Status"] == "paused"

    def wake() -> None:
        link.post("/unpause").raise_for_status()

    def begin_anew() -> None:
        engine.kill()
        engine.start()

    def bare() -> None:
        link.post("/pause").raise_for_status()
        assert paused()
        wake()
        assert not paused()

    _add(report, "floor: bare pause, unpause and reads", [_timed(bare) / 2 for _ in range(ROUNDS)])
    asked: list[float] = []
    freed: list[float] = []
    for _ in range(ROUNDS):
        asked.append(ward.quarantine("boxed"))
        assert paused(), "the receipt says what is so"
        freed.append(ward.release("boxed"))
        assert not paused()
    _add(report, f"{CONTAINER}: quarantine to its receipt", asked)
    _add(report, f"{CONTAINER}: release to its receipt", freed)
    ward.quarantine("boxed")
    _again_held(report, ward, f"{CONTAINER}: woken by a neighbour", _again(ward, "boxed", paused, wake))
    rounds = max(2, ROUNDS // 3)
    taken = _again(ward, "boxed", paused, begin_anew, rounds=rounds)
    _again_held(report, ward, f"{CONTAINER}: its engine began anew", taken)


def _again(
    ward: Ward, name: str, held: Callable[[], bool], undo: Callable[[], None], *, rounds: int = ROUNDS
) -> list[float]:
    """Seconds from the end of what undid a hold until it is seen to be there again, begun at every part of a look."""
    taken: list[float] = []
    for number in range(rounds):
        time.sleep(LOOK_SECONDS * number / rounds)
        undo()
        began = wall()
        _until(held)
        taken.append(wall() - began)
        _until(lambda: ward.settled(name))
    return taken


def _begun_anew(ward: Ward) -> float:
    ward.end()
    began = ward.begin()
    _until(ward.stands)
    taken = wall() - began
    _until(lambda: ward.settled("agent"))
    return taken


def _floors(report: Report) -> None:
    """What it takes to do it and to read it, with nothing else around it."""
    with subprocess.Popen(["sleep", "600"]) as process:
        (one,) = _named([process.pid])
        taken = [_timed(lambda: _stop(one)) for _ in range(FLOOR_ROUNDS)]
        _add(report, "floor: bare SIGSTOP, SIGCONT and reads", [each / 2 for each in taken])
        group = cgroup.make(f"bench {os.getpid()}", uid=os.geteuid())
        if group is not None:
            (group.path / "cgroup.procs").write_text(str(process.pid))
            taken = [_timed(lambda group=group: _freeze(group)) for _ in range(FLOOR_ROUNDS)]
            _add(report, "floor: bare freeze, thaw and reads", [each / 2 for each in taken])
        process.kill()
        process.wait()
        if group is not None:
            _until(lambda: not group.members)
            group.remove()


def _stop(one: Named) -> None:
    proc.send(one, signal.SIGSTOP)
    _until(lambda: proc.state(one.pid) in proc.STOPPED, pause=0)
    proc.send(one, signal.SIGCONT)
    _until(lambda: proc.state(one.pid) not in proc.STOPPED, pause=0)


def _freeze(group: cgroup.Group) -> None:
    for word, frozen in (("1", True), ("0", False)):
        (group.path / "cgroup.freeze").write_text(word)
        _until(lambda frozen=frozen: group.frozen is frozen, pause=0)


@contextmanager
def _engine() -> Generator[DockerServer | None]:
    """A real engine, where there can be one."""
    try:
        DockerServer.path()
    except ProgramMissing as why:
        print(f"  container: skipped, {why}")
        yield None
        return
    with DockerServer() as engine:
        yield engine


def _frozen_by_group(ward: Ward) -> bool:
    return any(_group(one.pid) is not None for one in ward.tree())


def _group(pid: int) -> cgroup.Group | None:
    """The group that Homeostat has put a process in."""
    place = cgroup.mount()
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if place is not None and line.startswith("0::") and "/homeostat-" in line:
            return cgroup.Group(place / line.removeprefix("0::").lstrip("/"))
    return None


def _frozen(pid: int) -> bool:
    group = _group(pid)
    return group is not None and group.frozen


def _named(pids: list[int]) -> list[Named]:
    return [Named(pid, since) for pid in pids if (since := proc.started(pid)) is not None]


def _key_of(ward: Ward) -> str:
    """The agent's own key, which its process was given."""
    _until(lambda: len(ward.tree()) == 3)
    entries = Path(f"/proc/{ward.tree()[0].pid}/environ").read_text().split("\0")
    return next(one for one in entries if one.startswith("HOMEOSTAT_KEY=")).partition("=")[2]


def _seconds(gap: dict[str, str]) -> float:
    since, until = (datetime.fromisoformat(gap[name]) for name in ("since", "until"))
    return (until - since).total_seconds()


def _timed(work: Callable[[], None]) -> float:
    began = wall()
    work()
    return wall() - began


def _until(holds: Callable[[], bool], *, pause: float = 0.001) -> None:
    began = wall()
    while not holds():
        if wall() - began > WAIT_SECONDS_MAX:
            raise AssertionError("it did not come to that")
        time.sleep(pause)


def _add(report: Report, name: str, seconds: list[float], **more: float) -> None:
    report.add(name, median_seconds=statistics.median(seconds), longest_seconds=max(seconds), **more)


def _again_held(report: Report, ward: Ward, name: str, seconds: list[float], **more: float) -> None:
    """How soon it was seen to be held again, beside the longest window that Homeostat has written down for it."""
    _add(report, name, seconds, **more, recorded_seconds=ward.recorded())


if __name__ == "__main__":
    run()
