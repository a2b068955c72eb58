"""`homeostat up` says when an agent waits for an operator."""

import pytest

from homeostat.app.assemble import assemble
from homeostat.app.settings import Settings
from homeostat.cli.up import _tell_questions
from homeostat.core.codec import to_json
from homeostat.core.ids import ProjectId
from homeostat.core.records.event import Channel, Event
from homeostat.testing.gateways import until


def _word(status: str) -> Event:
    said = {"approval_id": f"apr_{status}", "agent_id": "ann\x1b[31m", "action": "restart", "status": status}
    return Event(status, ProjectId("default"), Channel.EVT, "agent", "ann", "approval", to_json(said))


async def test_a_question_is_one_line_with_the_command_that_answers(capsys: pytest.CaptureFixture[str]) -> None:
    async with assemble(Settings(ephemeral=True)) as system:
        await _tell_questions(system, "http://127.0.0.1:7999")
        await system.bus.publish((_word("approved"), _word("pending")))
        told: list[str] = []

        def heard() -> bool:
            told.extend(capsys.readouterr().out.splitlines())
            return bool(told)

        await until(heard)
    [line] = told
    assert "homeostat approve apr_pending --url http://127.0.0.1:7999" in line
    assert "\x1b" not in line, "what an agent is called commands no terminal"
