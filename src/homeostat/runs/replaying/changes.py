"""What is to be otherwise in a replay that asks "what if": a prompt, a model, or which models and tools are allowed."""

from collections.abc import Sequence
from dataclasses import dataclass

from homeostat.agent.orchestrator import Factory
from homeostat.agent.protocol import ProcessingAgent
from homeostat.agent.react import ReActAgent
from homeostat.core.ports.upstream import Upstream
from homeostat.gateway.patterns import NameFilter
from homeostat.runs.bundle import Bundle
from homeostat.runs.replaying.journal import Mode
from homeostat.runs.replaying.replay import FindFactory, Report, replay
from homeostat.runs.replaying.rules import Rules
from homeostat.runs.replaying.tape import TurnEnded


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Other words, another model, other rules. Names may have a `*` for any part."""

    prompt: str | None = None
    model: str | None = None
    allow_models: Sequence[str] = ()
    deny_models: Sequence[str] = ()
    allow_tools: Sequence[str] = ()
    deny_tools: Sequence[str] = ()

    def __bool__(self) -> bool:
        return self.rules is not None or self.prompt is not None or self.model is not None

    @property
    def rules(self) -> Rules | None:
        """What would be refused, if anything is said of it."""
        if not (self.allow_models or self.deny_models or self.allow_tools or self.deny_tools):
            return None
        return Rules(
            models=NameFilter(allow=self.allow_models, deny=self.deny_models),
            tools=NameFilter(allow=self.allow_tools, deny=self.deny_tools),
        )


class Applied:
    """Finds the same agents with another prompt or model, where they have a profile, and knows whom that reached."""

    def __init__(self, find: FindFactory, changes: Changes) -> None:
        self._find = find
        self._changes = changes
        self.reached = False
        self.unreached: list[str] = []

    def __call__(self, end: TurnEnded) -> Factory:
        factory = self._find(end)
        if not isinstance(factory(), ReActAgent):
            self.unreached.append(end.agent_id)
            return factory
        self.reached = True

        def make() -> ProcessingAgent:
            made = factory()
            assert isinstance(made, ReActAgent)
            return made.with_profile(system_prompt=self._changes.prompt, model=self._changes.model)

        return make


async def replay_changed(
    bundle: Bundle, find: FindFactory, changes: Changes, *, mode: Mode, upstream: Upstream | None
) -> Report:
    """Replay with something changed. A change that reaches nobody shows nothing, and the report says so."""
    if changes.prompt is None and changes.model is None:
        return await replay(bundle, find, mode=mode, upstream=upstream, rules=changes.rules)
    applied = Applied(find, changes)
    report = await replay(bundle, applied, mode=mode, upstream=upstream, rules=changes.rules)
    if not applied.reached:
        report.unreached = applied.unreached
    return report
