"""What every keeper of what is wanted of agents promises."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.ports.immune import EnforcementStore
from homeostat.core.records.enforcement import Control, Custody, Effect, Gap, Hold, Strategy, Verb
from homeostat.core.records.immune import Stance

Check = Callable[[EnforcementStore], Awaitable[None]]

PROJECT: Final = ProjectId("default")
ANN: Final = AgentId("ann")
KEY: Final = (PROJECT, ANN)
NOW: Final = Millis(1_000)


def hold(strategy: Strategy = Strategy.GATEWAY, agent: AgentId = ANN) -> Hold:
    return Hold(
        project=PROJECT,
        agent_id=agent,
        strategy=strategy,
        wanted=Stance.CLOSED,
        verb=Verb.QUARANTINE,
        reason="it loops",
        actor="ann",
        asked_at_ms=NOW,
        before='{"replicas": 3}',
        gaps=(Gap(from_ms=NOW, until_ms=None, note="it woke"),),
    )


def custody(pid: int = 4_242) -> Custody:
    return Custody(
        project=PROJECT, agent_id=ANN, pid=pid, started=7, boot_id="b", uid=1_000, supervises=True, since_ms=NOW
    )


async def what_is_wanted_is_kept_by_strategy(store: EnforcementStore) -> None:
    process, gateway = hold(Strategy.PROCESS), hold()
    await store.save_holds([process, gateway, hold(agent=AgentId("bob"))])
    assert await store.holds_of(KEY) == [gateway, process], "in the order in which they close"
    assert len(await store.holds()) == 3
    seen = replace(process, effect=Effect.ENFORCED, checked_at_ms=Millis(2_000), gaps=())
    await store.save_holds([seen])
    assert await store.holds_of(KEY) == [gateway, seen]
    assert await store.holds_of((ProjectId("other"), ANN)) == []
    await store.save_holds([])


async def one_process_is_in_custody_for_an_agent(store: EnforcementStore) -> None:
    await store.put_custody(custody())
    await store.put_custody(custody(5_000))
    assert await store.custodies() == [custody(5_000)]
    await store.drop_custody(KEY)
    await store.drop_custody(KEY)
    assert await store.custodies() == []


async def an_address_is_kept_with_whose_word_it_is(store: EnforcementStore) -> None:
    assert await store.control(KEY) is None
    control = Control(project=PROJECT, agent_id=ANN, url="http://127.0.0.1:9000", by="ann", at_ms=NOW, private=True)
    await store.put_control(control)
    await store.put_control(replace(control, by="bob"))
    assert await store.control(KEY) == replace(control, by="bob")
    assert await store.drop_control(KEY)
    assert not await store.drop_control(KEY)


async def the_first_signing_key_stays(store: EnforcementStore) -> None:
    assert await store.signing_key("one") == "one"
    assert await store.signing_key("two") == "one"


CHECKS: Final[tuple[Check, ...]] = (
    what_is_wanted_is_kept_by_strategy,
    one_process_is_in_custody_for_an_agent,
    an_address_is_kept_with_whose_word_it_is,
    the_first_signing_key_stays,
)
