"""A ready-made agent: think, call tools, look at the results, and end with a result of the wanted shape."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Self, cast

from homeostat.agent.asking import tool_asked
from homeostat.agent.config import LifecycleConfig
from homeostat.agent.errors import CallFailed, CannotTreat, FatalError, RecoverableError, StepFailed
from homeostat.agent.invocation import Invoker, holds_nothing
from homeostat.agent.managed import ManagedAgent
from homeostat.agent.models import Completion, ToolUse
from homeostat.agent.requests import Request
from homeostat.agent.result import check_fields, schema_of
from homeostat.agent.tools import Tool, tool, tool_of
from homeostat.agent.turn import Turn
from homeostat.core.codec import to_json
from homeostat.core.errors import InvalidRequest, ResultFieldsMissing, SettingInvalid, Unavailable
from homeostat.core.records.tool import ToolSpec

SUBMIT: Final = "submit_result"
LOCAL_TOOL: Final = "tool:"
"""How the step is named in which a tool runs inside of a turn."""

STEPS_MAX: Final = 200

AnyTool = Tool | Callable[..., Any] | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a ReAct agent is made of.

    A tool is a function (it runs in the worker, as a step), a `Tool`, or the name of one that a tool service has
    registered. `must_end_with` names the tool whose call ends a turn; a model that answers in words is asked again.
    `earlier_prompts`, the latest last, are what a rollback goes back to.
    """

    model: str
    system_prompt: str = ""
    tools: tuple[AnyTool, ...] = ()
    must_end_with: str | None = None
    max_steps: int = 12
    stream: bool = False
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    earlier_prompts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.model:
            raise SettingInvalid(setting="model", problem="a profile names the model to ask")
        if not 1 <= self.max_steps <= STEPS_MAX:
            raise SettingInvalid(setting="max_steps", problem=f"it lies between 1 and {STEPS_MAX}")


class UnknownTools(InvalidRequest):
    """The profile of {agent} names tools that nobody has registered: {names} (known: {known})."""

    code = "unknown_tools"
    hint = "Start the tool service that has them first, or put the function itself into the profile."


class ReActAgent(ManagedAgent):
    """Works on a turn with a model and tools. Subclasses set `profile`, or it is passed."""

    profile: ClassVar[Profile | None] = None

    def __init__(self, profile: Profile | None = None, **named: Any) -> None:
        super().__init__(**named)
        self._given = profile or type(self).profile
        self._tools: dict[str, Tool] = {}
        tools = self._given.tools if self._given is not None else ()
        self._remote = [one for one in tools if isinstance(one, str)]
        for one in tools:
            if not isinstance(one, str):
                made = one if isinstance(one, Tool) else tool(one)
                self._tools[made.name] = made
        self._calls = Invoker()

    @property
    def _profile(self) -> Profile:
        if self._given is None:
            raise SettingInvalid(setting="profile", problem=f"{type(self).__name__} has none; set it on the class")
        return self._given

    def with_profile(self, **changes: Any) -> Self:
        """This agent, before its first turn, with another prompt or model; what is None stays as it is."""
        self._given = replace(self._profile, **{name: value for name, value in changes.items() if value is not None})
        return self

    @property
    def wanted_tools(self) -> tuple[str, ...]:
        """Names in the profile that somebody else has to make known."""
        return tuple(self._remote)

    def check(self) -> None:
        """Raise `SettingInvalid` if there is no profile."""
        assert self._profile

    def equip(self, known: Mapping[str, ToolSpec]) -> None:
        """Take the tools that are registered; raises `UnknownTools` if one of the profile's is not among them."""
        missing = [name for name in self._remote if name not in known and name not in self._tools]
        ending = self._given.must_end_with if self._given is not None else None
        if ending is not None and ending != SUBMIT and ending not in self._tools and ending not in self._remote:
            missing.append(ending)
        if missing:
            raise UnknownTools(
                agent=type(self).__name__, names=", ".join(missing), known=", ".join(sorted(known)) or "none"
            )
        for name in self._remote:
            if name in known:
                self._tools[name] = tool_of(known[name])

    @holds_nothing
    async def _do_startup(self, config: LifecycleConfig) -> None:
        del config
        if self._remote:
            self.equip(await self.tool_desk.describe() if self.tool_desk is not None else {})

    # --- remedies --------------------------------------------------------------------------------------------

    async def _do_rollback_prompt(self) -> str:
        profile = self._profile
        if not profile.earlier_prompts:
            raise CannotTreat("its profile names no earlier prompt")
        *rest, last = profile.earlier_prompts
        self._given = replace(profile, system_prompt=last, earlier_prompts=tuple(rest))
        return "it works with the prompt before"

    async def _do_reduce_autonomy(self) -> str:
        steps = max(1, self._profile.max_steps // 2)
        self._given = replace(self._profile, max_steps=steps)
        return f"it takes {steps} steps at most"

    async def _do_revoke_tools(self) -> str:
        if not self._tools:
            raise CannotTreat("it has no tools")
        revoked, self._tools, self._remote = len(self._tools), {}, []
        return f"{revoked} tools were revoked"

    # --- the loop ------------------------------------------------------------------------------------------

    async def process(self, turn: Turn, /) -> Any:
        messages = self._opening(turn)
        ending = self._profile.must_end_with or (SUBMIT if turn.result_fields else None)
        offers = [one.offer() for one in self._tools.values()]
        if ending == SUBMIT:
            offers.append(_submit_offer(turn))
        for number in range(1, self._profile.max_steps + 1):
            answer = await self._think(turn, messages, offers, ending if number == self._profile.max_steps else None)
            messages.append(answer.message)
            if not answer.tool_calls:
                if ending is None:
                    return answer.text
                messages.append({"role": "user", "content": f"End by calling {ending}."})
                continue
            results = await self._act(turn, answer.tool_calls)
            messages += [
                {"role": "tool", "tool_call_id": use.call_id, "content": _text(result)}
                for use, result in zip(answer.tool_calls, results, strict=True)
            ]
            if turn.submitted:
                return None
            for use, result in zip(answer.tool_calls, results, strict=True):
                if use.name == ending and not isinstance(result, _Problem):
                    return result
        raise RecoverableError(f"No result after {self._profile.max_steps} steps (max_steps of the profile).")

    def _opening(self, turn: Turn) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = []
        if self._profile.system_prompt:
            messages.append({"role": "system", "content": self._profile.system_prompt})
        if turn.context:
            cards = "\n\n".join(f"[{card.type}]\n{_text(card.content)}" for card in turn.context)
            messages.append({"role": "system", "content": f"Context:\n\n{cards}"})
        messages.append({"role": "user", "content": _text(turn.input)})
        return messages

    async def _think(
        self, turn: Turn, messages: list[dict[str, Any]], offers: list[dict[str, Any]], forced: str | None
    ) -> Completion:
        options = dict(self._profile.options)
        if offers:
            options["tools"] = offers
        if forced is not None:
            options["tool_choice"] = {"type": "function", "function": {"name": forced}}
        return await turn.llm(list(messages), model=self._profile.model, stream=self._profile.stream, **options)

    async def _act(self, turn: Turn, uses: tuple[ToolUse, ...]) -> list[Any]:
        """Make the calls: what runs here one after the other as steps, what runs elsewhere in one suspension."""
        results: dict[int, Any] = {}
        waiting: dict[int, Request] = {}
        for number, use in enumerate(uses):
            known = self._tools.get(use.name)
            if use.name == SUBMIT and known is None:
                results[number] = _submit(turn, use.arguments)
            elif known is None:
                results[number] = _Problem(f"there is no tool {use.name!r}, only {', '.join(self._tools) or 'none'}")
            elif known.function is None:
                waiting[number] = turn.request(known.name, _object(use), timeout_seconds=known.timeout_seconds)
            else:
                results[number] = await self._run(turn, known, use)
        answers = await turn.gather(*waiting.values(), return_errors=True) if waiting else []
        for number, answer in zip(waiting, answers, strict=True):
            results[number] = _Problem(str(answer)) if isinstance(answer, CallFailed) else answer
        return [results[number] for number in range(len(uses))]

    async def _run(self, turn: Turn, known: Tool, use: ToolUse) -> Any:
        """Run a tool in this process. What it raises the model is told, unless the agent itself is broken."""

        async def work() -> Any:
            named = known.take(use.arguments, turn=turn)
            return await self._calls.call(known.function or known, **named)

        try:
            return await turn.step_asking(f"{LOCAL_TOOL}{known.name}", lambda: tool_asked(use.arguments), work)
        except (FatalError, Unavailable):
            raise
        except StepFailed as again:
            return _Problem(f"{known.name} failed: {again.facts['problem']}")
        except Exception as problem:  # noqa: BLE001 - the model is told
            return _Problem(f"{known.name} failed: {problem}")


class _Problem:
    """A tool's result that is none."""

    def __init__(self, words: str) -> None:
        self.words = words


def _object(use: ToolUse) -> dict[str, Any]:
    """A call's arguments, which a tool service gets as an object, whatever the model wrote."""
    given: object = use.arguments
    return cast("dict[str, Any]", given) if isinstance(given, dict) else {"arguments": given}


def _submit(turn: Turn, arguments: Any) -> Any:
    """Take the result, or say what is missing from it."""
    result: Any = arguments
    if not turn.result_fields and isinstance(arguments, dict):
        result = cast("dict[str, Any]", arguments).get("result", result)
    try:
        check_fields(turn.result_fields, result)
        turn.submit_result(result)
    except (ResultFieldsMissing, InvalidRequest) as problem:
        return _Problem(str(problem))
    return "accepted"


def _submit_offer(turn: Turn) -> dict[str, Any]:
    anything = {"type": "object", "properties": {"result": {"type": "string"}}, "required": ["result"]}
    return {
        "type": "function",
        "function": {
            "name": SUBMIT,
            "description": "Hand in the final result. Call it once, when everything is done.",
            "parameters": schema_of(turn.result_fields) if turn.result_fields else anything,
        },
    }


def _text(value: Any) -> str:
    if isinstance(value, _Problem):
        return to_json({"error": value.words})
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
