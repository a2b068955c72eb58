"""The gateway's own rule holds an agent: one that somebody else has set is not taken for it."""

from homeostat.adapters.enforcers.gateway import GatewayEnforcer, hold_id
from homeostat.core.records.enforcement import Effect, Strategy
from homeostat.core.records.immune import Stance
from homeostat.core.records.policy import Action, Policy, PolicyId, PolicyOrigin
from homeostat.testing.clinic import Clinic, clinic
from homeostat.testing.holding import ANN


async def gateway_hold(one: Clinic) -> tuple[Effect, int, str]:
    receipt = await one.system.immune.enforcement.receipt(ANN)
    (hold,) = [hold for hold in receipt.holds if hold.strategy is Strategy.GATEWAY]
    return hold.effect, hold.gaps_count, hold.note


async def test_a_rule_of_somebody_else_is_not_taken_for_ours() -> None:
    async with clinic() as one:
        gateway, immune = one.system.gateway, one.system.immune
        await one.enrol("ann")
        theirs = Policy(
            policy_id=PolicyId("a_before_ours"),
            project=ANN[0],
            agent_id=ANN[1],
            action=Action.BLOCK,
            origin=PolicyOrigin.OPERATOR,
            reason="an audit",
            created_at_ms=one.clock.now_ms(),
        )
        await gateway.put_policy(theirs)
        assert (await one.call("ann")).status >= 400
        reading = await GatewayEnforcer(policies=gateway, clock=one.clock).held(ANN, "")
        assert (reading.stance, "which is not ours" in reading.note) == (Stance.OPEN, True)

        await immune.quarantine(ANN, reason="it loops", actor="ann")
        assert gateway.policy(ANN[0], hold_id(ANN)) is not None
        assert await gateway.drop_policy(ANN[0], hold_id(ANN))
        await immune.reconcile()
        assert gateway.policy(ANN[0], hold_id(ANN)) is not None, "theirs may go at any time"
        assert (await gateway_hold(one))[:2] == (Effect.ENFORCED, 1)

        await immune.release(ANN, reason="", actor="ann")
        effect, _, note = await gateway_hold(one)
        assert (effect, "which is not ours" in note) == (Effect.ENFORCED, True), "ours is gone, and that was asked"
        assert (await one.call("ann")).status >= 400
