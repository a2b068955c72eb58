"""`pytest --homeostat-agent module:Class`: the lifecycle contract as one test per promise."""

import asyncio
import traceback
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from homeostat.testing.compliance import Check

OPTION = "--homeostat-agent"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("homeostat").addoption(
        OPTION,
        metavar="MODULE:CLASS",
        action="append",
        default=[],
        dest="homeostat_agents",
        help="check that an agent class keeps the lifecycle contract (may be given more than once)",
    )


def pytest_configure(config: pytest.Config) -> None:
    # Without a path on the command line the contract alone is wanted, not the tests that happen to lie around.
    if _targets(config) and config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = []


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    for target in _targets(config):
        collector: AgentCollector = _make(AgentCollector)(session, name=target)
        items.extend(collector.collect())


def _targets(config: pytest.Config) -> list[str]:
    return config.getoption("homeostat_agents") or []


def _make(kind: type[pytest.Collector] | type[pytest.Item]) -> Callable[..., Any]:
    """Nodes are made by their parents; pytest does not say with which types."""
    return cast("Callable[..., Any]", kind.from_parent)


class AgentCollector(pytest.Collector):
    """One agent class, and the promises it has to keep."""

    def collect(self) -> Iterable[pytest.Item]:
        from homeostat.agent.loading import TargetInvalid, load  # noqa: PLC0415 - pytest without the option loads nothing
        from homeostat.testing.compliance import CHECKS  # noqa: PLC0415

        try:
            made = load(self.name)
        except TargetInvalid as problem:
            raise pytest.UsageError(f"{problem} {problem.fix}") from None
        if not callable(made):
            raise pytest.UsageError(f"{self.name} is no class and no function that makes an agent.")
        for check in CHECKS:
            name = f"{self.name}[{getattr(check, '__name__', check)}]"
            yield _make(PromiseItem)(self, name=name, check=check, make=made)


class PromiseItem(pytest.Item):
    """One promise of one class."""

    def __init__(self, *, check: "Check", make: Callable[[], Any], **named: Any) -> None:
        super().__init__(**named)  # pyright: ignore[reportUnknownMemberType] - untyped in pytest
        self._check = check
        self._make = make

    def runtest(self) -> None:
        from homeostat.testing.compliance import examine  # noqa: PLC0415
        from homeostat.testing.probe import NotApplicable  # noqa: PLC0415

        try:
            asyncio.run(examine(self._check, self._make))
        except NotApplicable as reason:
            pytest.skip(str(reason))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        from homeostat.testing.probe import PromiseBroken  # noqa: PLC0415

        del style
        error = excinfo.value
        return str(error) if isinstance(error, PromiseBroken) else "".join(traceback.format_exception(error))

    def reportinfo(self) -> tuple[Any, int | None, str]:
        return self.path, None, self.name
