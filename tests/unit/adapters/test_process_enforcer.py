"""Real process trees are held, whoever sends them signals, and nobody else is ever touched."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from homeostat.adapters.enforcers import cgroup, proc
from homeostat.adapters.enforcers.proc import Named
from homeostat.adapters.enforcers.process import ProcessEnforcer
from homeostat.adapters.stores.sqlite import SqliteEnforcement, SqliteEngine
from homeostat.core.clock import SystemClock
from homeostat.core.enforcement_errors import CustodyRefused, CustodyTaken
from homeostat.core.errors import StoreUnavailable
from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.records.enforcement import Custody
from homeostat.core.records.immune import Stance
from homeostat.core.records.turn import AgentKey

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="processes are held by pidfd, which is Linux's")

ANN: AgentKey = (ProjectId("default"), AgentId("ann"))
S = Stance
NO_GROUP = "no cgroup v2 of our own can be had here, so nothing can be frozen as a group"

# A process with a child that counts into a file as long as it runs.
COUNTER = (
    "import sys, time\nn = 0\nwhile True:\n    n += 1\n    open(sys.argv[1], 'w').write(str(n))\n    time.sleep(0.01)"
)
FAMILY = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[2], sys.argv[1]], stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
child.wait()
"""
# A process whose child leaves it: it forks twice, so that nobody of the tree is its parent any more.
LEAVER = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        exec(sys.argv[2])
    os._exit(0)
os.wait()
print("left", flush=True)
time.sleep(120)
"""
# A supervisor that marks what it starts; its child waits until it is killed, and then leaves by forking twice.
ESCAPE = """
import ctypes, os, signal, sys, time
from homeostat.adapters.enforcers import proc
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
named = proc.Named(os.getpid(), proc.started(os.getpid()))
leaver = '''
import os, sys, time
print(os.getpid(), flush=True)
while os.getppid() == int(sys.argv[3]):
    time.sleep(0.01)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(sys.argv[1] + ".pid", "w").write(str(os.getpid()))
        exec(sys.argv[2])
    os._exit(0)
'''
given = {**os.environ, proc.MARK: proc.mark(named, proc.boot_id())}
os.spawnve(os.P_NOWAIT, sys.executable, [sys.executable, "-c", leaver, *sys.argv[1:3], str(os.getpid())], given)
time.sleep(120)
"""


class Tree:
    """A process with a child; both end with the test."""

    def __init__(self, code: str, place: Path) -> None:
        self.place = place
        command = [sys.executable, "-c", code, str(place), COUNTER]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert self.process.stdout is not None
        self.word = self.process.stdout.readline().strip()

    @property
    def pid(self) -> int:
        return self.process.pid

    def count(self) -> int:
        try:
            return int(self.place.read_text() or 0)
        except (FileNotFoundError, ValueError):
            return 0

    async def counts(self) -> bool:
        """Whether it goes on within a while."""
        before = self.count()
        for _ in range(500):
            if self.count() != before:
                return True
            await asyncio.sleep(0.02)
        return False

    async def stands(self) -> bool:
        """Whether nothing was counted for a while."""
        await asyncio.sleep(0.1)
        before = self.count()
        await asyncio.sleep(0.3)
        return self.count() == before


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., Tree]]:
    trees: list[Tree] = []

    def make(code: str = FAMILY) -> Tree:
        trees.append(Tree(code, tmp_path / f"count{len(trees)}"))
        return trees[-1]

    yield make
    for tree in trees:
        for one in proc.descendants([tree.pid]):
            proc.send(one, signal.SIGKILL)
        tree.process.kill()
        tree.process.wait()
        if tree.process.stdout is not None:
            tree.process.stdout.close()
        counter = tree.place.with_suffix(".pid")
        if counter.exists() and (since := proc.started(pid := int(counter.read_text()))) is not None:
            proc.send(Named(pid, since), signal.SIGKILL)


@pytest.fixture
async def store() -> AsyncGenerator[SqliteEnforcement]:
    engine = SqliteEngine(None)
    await engine.open()
    yield SqliteEnforcement(engine)
    await engine.close()


@pytest.fixture(params=["signals", "group"])
def enforcer(request: pytest.FixtureRequest, store: SqliteEnforcement) -> Iterator[ProcessEnforcer]:
    groups = request.param == "group"
    if groups:
        group = cgroup.make(f"test {os.getpid()}", uid=os.geteuid())
        if group is None:
            pytest.skip(NO_GROUP)
        group.remove()
    made = ProcessEnforcer(store=store, clock=SystemClock(), groups=groups)
    yield made
    for key in made.agents():
        if (custody := made.custody(key)) is not None and custody.cgroup:
            path = Path(custody.cgroup)
            for pid in cgroup.Group(path).members:
                (path.parent / "cgroup.procs").write_text(str(pid))
            cgroup.Group(path).remove()


async def stance(enforcer: ProcessEnforcer) -> Stance | None:
    return (await enforcer.held(ANN, "")).stance


async def take(enforcer: ProcessEnforcer, tree: Tree) -> Custody:
    return await enforcer.take(ANN, tree.pid, uid=os.geteuid(), supervises=False)


async def test_a_tree_is_stopped_stays_stopped_and_goes_on(
    enforcer: ProcessEnforcer, begin: Callable[..., Tree]
) -> None:
    tree = begin()
    assert await tree.counts()
    await take(enforcer, tree)
    assert await stance(enforcer) is S.OPEN
    before = await enforcer.observe(ANN, "")
    await enforcer.hold(ANN, S.CLOSED, "it loops", before)
    assert await stance(enforcer) is S.CLOSED
    assert await tree.stands()
    child = int(tree.word)
    os.kill(child, signal.SIGCONT)  # anybody of the same user may do that
    if await stance(enforcer) is not S.CLOSED:
        await enforcer.hold(ANN, S.CLOSED, "it loops", before)
    assert await stance(enforcer) is S.CLOSED
    assert await tree.stands()
    await enforcer.hold(ANN, S.OPEN, "", before)
    assert await stance(enforcer) is S.OPEN
    assert await tree.counts()


async def test_a_neighbour_does_not_thaw_a_group(store: SqliteEnforcement, begin: Callable[..., Tree]) -> None:
    enforcer = ProcessEnforcer(store=store, clock=SystemClock())
    tree = begin()
    await take(enforcer, tree)
    if not (custody := enforcer.custody(ANN)) or not custody.cgroup:
        pytest.skip(NO_GROUP)
    await enforcer.hold(ANN, S.CLOSED, "", await enforcer.observe(ANN, ""))
    for _ in range(100):
        os.kill(tree.pid, signal.SIGCONT)
        os.kill(int(tree.word), signal.SIGCONT)
        assert await stance(enforcer) is S.CLOSED
    assert await tree.stands()
    await enforcer.end(ANN)
    tree.process.wait()
    await enforcer.let_go(ANN)
    assert not cgroup.Group(Path(custody.cgroup)).exists


async def test_who_left_the_tree_by_forking_twice_is_held_if_he_was_seen(
    enforcer: ProcessEnforcer, begin: Callable[..., Tree]
) -> None:
    tree = begin()
    child = int(tree.word)
    await take(enforcer, tree)
    assert await stance(enforcer) is S.OPEN  # both have been seen
    tree.process.kill()
    tree.process.wait()
    assert proc.alive(Named(child, proc.started(child) or 0)), "its parent is gone, and it goes on"
    assert await tree.counts()
    await enforcer.hold(ANN, S.CLOSED, "", await enforcer.observe(ANN, ""))
    assert await stance(enforcer) is S.CLOSED
    assert await tree.stands()
    await enforcer.end(ANN)
    assert await stance(enforcer) is S.ENDED


async def test_who_leaves_a_supervisor_comes_back_to_it(store: SqliteEnforcement, begin: Callable[..., Tree]) -> None:
    supervisor = """
import ctypes, subprocess, sys, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
child = subprocess.Popen([sys.executable, "-c", sys.argv[3], sys.argv[1], sys.argv[2]], stdout=subprocess.PIPE)
print(child.stdout.readline().decode().strip(), flush=True)
time.sleep(120)
""".replace("sys.argv[3]", repr(LEAVER))
    enforcer = ProcessEnforcer(store=store, clock=SystemClock(), groups=False)
    tree = begin(supervisor)
    assert tree.word == "left"
    await enforcer.take(ANN, tree.pid, uid=os.geteuid(), supervises=True)
    assert await tree.counts()
    before = await enforcer.observe(ANN, "")
    await enforcer.hold(ANN, S.CLOSED, "", before)
    assert await tree.stands()
    assert proc.state(tree.pid) == "S", "whoever supervises is not stopped"
    await enforcer.hold(ANN, S.OPEN, "", before)
    assert await tree.counts()
    await enforcer.end(ANN)
    assert await stance(enforcer) is S.ENDED
    assert tree.process.poll() is None


async def test_who_leaves_a_dead_supervisor_s_tree_between_two_looks_is_found_by_his_mark(
    store: SqliteEnforcement, begin: Callable[..., Tree]
) -> None:
    tree, other = begin(ESCAPE), begin(ESCAPE)
    left = int(tree.word)
    enforcer = ProcessEnforcer(store=store, clock=SystemClock(), groups=False)
    await enforcer.take(ANN, tree.pid, uid=os.geteuid(), supervises=True)  # and nobody looks until all is over
    for one in (tree, other):
        one.process.kill()
        one.process.wait()
        assert await one.counts()
    escaped = int(tree.place.with_suffix(".pid").read_text())
    assert proc.started(left) is None, "nobody is left by whom it could be found"
    again = ProcessEnforcer(store=store, clock=SystemClock(), groups=False)  # Homeostat began anew, too
    await again.open()
    assert [one.pid for one in again.members(ANN)] == [escaped]
    await again.hold(ANN, S.CLOSED, "", await again.observe(ANN, ""))
    assert await stance(again) is S.CLOSED
    assert await tree.stands()
    assert await other.counts(), "whoever another one started is nobody's but his"
    await again.end(ANN)
    assert await stance(again) is S.ENDED
    assert proc.started(escaped) is None


async def test_who_slept_before_is_not_woken(store: SqliteEnforcement, begin: Callable[..., Tree]) -> None:
    enforcer = ProcessEnforcer(store=store, clock=SystemClock(), groups=False)
    tree = begin()
    child = int(tree.word)
    os.kill(child, signal.SIGSTOP)
    await take(enforcer, tree)
    for _ in range(1_000):
        if proc.state(child) == "T":
            break
        await asyncio.sleep(0.01)
    before = await enforcer.observe(ANN, "")
    assert [one[0] for one in json.loads(before)["asleep"]] == [child]
    await enforcer.hold(ANN, S.CLOSED, "", before)
    await enforcer.hold(ANN, S.OPEN, "", before)
    assert proc.state(child) == "T"
    os.kill(child, signal.SIGCONT)


async def test_custody_outlives_homeostat(store: SqliteEnforcement, begin: Callable[..., Tree]) -> None:
    tree = begin()
    await take(ProcessEnforcer(store=store, clock=SystemClock(), groups=False), tree)
    again = ProcessEnforcer(store=store, clock=SystemClock(), groups=False)
    await again.open()
    await again.hold(ANN, S.CLOSED, "", await again.observe(ANN, ""))
    assert await tree.stands()
    assert await stance(again) is S.CLOSED


async def test_custody_does_not_outlive_the_machine_s_boot(
    store: SqliteEnforcement, begin: Callable[..., Tree]
) -> None:
    """Whoever has the number and the start time of somebody from before is somebody else."""
    tree = begin()
    custody = await take(ProcessEnforcer(store=store, clock=SystemClock(), groups=False), tree)
    await store.put_custody(replace(custody, boot_id="another boot"))
    again = ProcessEnforcer(store=store, clock=SystemClock(), groups=False)
    await again.open()
    assert (again.agents(), await store.custodies(), await again.reaches(ANN)) == ([], [], False)


async def test_whoever_has_the_number_of_somebody_who_ended_is_taken_for_himself(
    store: SqliteEnforcement, begin: Callable[..., Tree], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, enforcer = begin(), ProcessEnforcer(store=store, clock=SystemClock(), groups=False)
    since = proc.started(tree.pid)
    assert since is not None
    with monkeypatch.context() as earlier:
        earlier.setattr(proc, "started", lambda _: since - 1)
        assert (await take(enforcer, tree)).started == since - 1
    assert (await take(enforcer, tree)).started == since
    assert [one.started for one in await store.custodies()] == [since]
    await enforcer.hold(ANN, S.CLOSED, "", await enforcer.observe(ANN, ""))
    assert await stance(enforcer) is S.CLOSED


async def test_whoever_ended_meanwhile_is_no_longer_in_custody(
    store: SqliteEnforcement, begin: Callable[..., Tree]
) -> None:
    tree = begin("print(1, flush=True)\nimport time\ntime.sleep(120)")
    custody = await take(ProcessEnforcer(store=store, clock=SystemClock()), tree)
    tree.process.kill()
    tree.process.wait()
    await ProcessEnforcer(store=store, clock=SystemClock()).open()
    assert await store.custodies() == []
    assert not custody.cgroup or not cgroup.Group(Path(custody.cgroup)).exists, "what is empty is given back"


async def test_an_agent_is_asked_to_drain_only_if_it_understands(
    store: SqliteEnforcement, begin: Callable[..., Tree]
) -> None:
    listens = (
        "import signal, sys, time\nsignal.signal(signal.SIGUSR1, lambda *_: sys.exit(0))\nprint('on', flush=True)\n"
    )
    enforcer = ProcessEnforcer(store=store, clock=SystemClock(), groups=False)
    deaf, polite = begin(), begin(listens + "print(1, flush=True)\ntime.sleep(120)")
    await take(enforcer, deaf)
    await enforcer.hold(ANN, S.DRAINING, "", "")
    assert await enforcer.in_flight(ANN) == 0
    assert deaf.process.poll() is None, "the signal would have killed it"
    bob = (ANN[0], AgentId("bob"))
    await enforcer.take(bob, polite.pid, uid=os.geteuid(), supervises=False)
    await enforcer.hold(bob, S.DRAINING, "", "")
    assert polite.process.wait(timeout=30) == 0
    assert await enforcer.in_flight(bob) == 0


async def test_of_two_that_come_at_once_one_is_in_custody(store: SqliteEnforcement, begin: Callable[..., Tree]) -> None:
    enforcer = ProcessEnforcer(store=store, clock=SystemClock(), groups=False)
    trees = [begin(), begin()]
    first, second = await asyncio.gather(*(take(enforcer, tree) for tree in trees), return_exceptions=True)
    assert isinstance(second, CustodyTaken)
    assert await store.custodies() == [first] == [enforcer.custody(ANN)]


async def test_a_custody_that_could_not_be_stored_is_none(
    store: SqliteEnforcement, begin: Callable[..., Tree], monkeypatch: pytest.MonkeyPatch
) -> None:
    enforcer = ProcessEnforcer(store=store, clock=SystemClock(), groups=False)

    async def away(_: Custody) -> None:
        raise StoreUnavailable(problem="it is away")

    monkeypatch.setattr(store, "put_custody", away)
    with pytest.raises(StoreUnavailable):
        await take(enforcer, begin())
    assert enforcer.custody(ANN) is None


async def test_nobody_swaps_a_decoy_into_custody(store: SqliteEnforcement, begin: Callable[..., Tree]) -> None:
    enforcer = ProcessEnforcer(store=store, clock=SystemClock(), groups=False)
    tree, decoy = begin(), begin()
    await take(enforcer, tree)
    with pytest.raises(CustodyTaken):
        await take(enforcer, decoy)
    with pytest.raises(CustodyTaken):
        await enforcer.take(ANN, int(tree.word), uid=os.geteuid(), supervises=False)
    await take(enforcer, tree)  # whoever is in custody may say so again
    await stance(enforcer)
    tree.process.kill()
    tree.process.wait()
    with pytest.raises(CustodyTaken):  # its child lives
        await take(enforcer, decoy)
    await enforcer.end(ANN)
    await take(enforcer, decoy)
    assert (await store.custodies())[0].pid == decoy.pid


@pytest.mark.parametrize("groups", [False, True], ids=["signals", "group"])
async def test_whoever_is_stopped_and_heeds_sigterm_ends_by_it(
    store: SqliteEnforcement, begin: Callable[..., Tree], *, groups: bool
) -> None:
    """What is stopped hears nothing until it goes on: it is woken for that, and not killed."""
    polite = "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\nprint(1, flush=True)\n"
    enforcer = ProcessEnforcer(store=store, clock=SystemClock(), groups=groups)
    tree = begin(polite + "time.sleep(120)")
    await take(enforcer, tree)
    await enforcer.hold(ANN, S.CLOSED, "", "")
    assert await enforcer.end(ANN, term_seconds=30)
    assert await asyncio.to_thread(tree.process.wait, 30) == 7


async def test_whoever_does_not_heed_sigterm_is_killed(store: SqliteEnforcement, begin: Callable[..., Tree]) -> None:
    deaf = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint(1, flush=True)\n"
    enforcer = ProcessEnforcer(store=store, clock=SystemClock(), groups=False)
    tree = begin(deaf + "time.sleep(120)")
    await take(enforcer, tree)
    assert await enforcer.end(ANN, term_seconds=0.1)
    assert await asyncio.to_thread(tree.process.wait, 30) == -signal.SIGKILL


async def test_some_processes_are_never_taken(store: SqliteEnforcement) -> None:
    enforcer = ProcessEnforcer(store=store, clock=SystemClock())
    why = {0: "holds up", -1: "holds up", 1: "holds up", os.getpid(): "itself", os.getppid(): "was started by it"}
    for pid, problem in why.items():
        with pytest.raises(CustodyRefused, match=problem):
            await enforcer.take(ANN, pid, uid=os.geteuid(), supervises=True)
    assert await store.custodies() == []


async def test_another_user_s_process_is_not_taken(store: SqliteEnforcement) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can begin a process of another user")
    enforcer = ProcessEnforcer(store=store, clock=SystemClock())
    with subprocess.Popen(["sleep", "120"], user=65534) as process:  # noqa: ASYNC220
        try:
            for uid in (0, 65534):
                with pytest.raises(CustodyRefused, match="another user"):
                    await enforcer.take(ANN, process.pid, uid=uid, supervises=False)
        finally:
            process.kill()


async def test_a_supervisor_of_homeostat_itself_does_not_stop_it(store: SqliteEnforcement) -> None:
    enforcer = ProcessEnforcer(store=store, clock=SystemClock())
    for ancestor in proc.ancestors(os.getpid()):
        with pytest.raises(CustodyRefused):
            await enforcer.take(ANN, ancestor, uid=os.geteuid(), supervises=True)


REUSE = """
import os, signal, subprocess, sys
from homeostat.adapters.enforcers import proc
from homeostat.adapters.enforcers.proc import Named
subprocess.run(["mount", "-t", "proc", "proc", "/proc"], check=True)
first = subprocess.Popen(["sleep", "120"])
named = Named(first.pid, proc.started(first.pid))
first.kill(); first.wait()
import time; time.sleep(0.05)  # start times are counted in hundredths
open("/proc/sys/kernel/ns_last_pid", "w").write(str(named.pid - 1))
second = subprocess.Popen(["sleep", "120"])
assert second.pid == named.pid, "the number was not given again"
assert not proc.alive(named)
assert not proc.send(named, signal.SIGKILL)
assert second.poll() is None and proc.state(second.pid) != "T"
assert proc.send(Named(second.pid, proc.started(second.pid)), signal.SIGKILL)
second.wait()
print("told apart")
"""


def test_a_number_that_is_given_again_names_somebody_else() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can have a namespace in which numbers are given again at will")
    command = ["unshare", "--pid", "--fork", "--mount", sys.executable, "-c", REUSE]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if "unshare" in done.stderr and "not permitted" in done.stderr:
        pytest.skip(f"no pid namespace can be had here: {done.stderr.strip()}")
    assert done.stdout.strip() == "told apart", done.stderr
