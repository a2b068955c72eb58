"""`homeostat up` says when an agent waits for an operator."""

import pytest
from msgspec import Raw

from homeostat.app.assemble import assemble
from homeostat.app.settings import Settings
from homeostat.cli.up import _tell_questions
from homeostat.core.codec import to_json
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, ProjectId
from homeostat.core.records.event import Channel, Event
from homeostat.core.records.run import RunConfig, Target, TargetKind, TaskSpec
from homeostat.fleet.registry import Introduction
from homeostat.testing.gateways import until


def _word(status: str) -> Event:
    said = {"approval_id": f"apr_{status}", "agent_id": "ann\x1b[31m", "action": "restart", "status": status}
    return Event(status, ProjectId("default"), Channel.EVT, "agent", "ann", "approval", to_json(said))


async def test_a_question_is_one_line_with_the_command_that_answers(capfd: pytest.CaptureFixture[str]) -> None:
    async with assemble(Settings(ephemeral=True)) as system:
        await _tell_questions(system, "http://127.0.0.1:7999")
        await system.bus.publish((_word("approved"), _word("pending")))
        told: list[str] = []

        def heard() -> bool:
            told.extend(capfd.readouterr().out.splitlines())
            return bool(told)

        await until(heard)
    [line] = told
    assert "homeostat approve apr_pending --url http://127.0.0.1:7999" in line
    assert "\x1b" not in line, "what an agent is called commands no terminal"


async def test_a_task_that_waits_is_told_once_with_the_command_that_answers(capfd: pytest.CaptureFixture[str]) -> None:
    async with assemble(Settings(ephemeral=True)) as system:
        await _tell_questions(system, "http://127.0.0.1:7700")
        await system.enrol(Introduction(agent_type="t", agent_id=AgentId("ann")), AgentId("ann"), key=None)
        task = TaskSpec(name="publish it", target=Target(TargetKind.AGENT, "ann"), input=Raw(b"null"), approval=True)
        run = await system.runs.control.create(DEFAULT_PROJECT, RunConfig(goal="a report", seed=1), [task], actor="bea")
        told: list[str] = []

        def heard() -> bool:
            told.extend(capfd.readouterr().out.splitlines())
            return bool(told)

        await until(heard)
    [line] = told
    assert line.startswith(f"{run.run_id} (a report) waits for your word on its task publish it: ")
    assert f"homeostat approve '{run.run_id}/publish it'" in line
