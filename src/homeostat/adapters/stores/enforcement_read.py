"""What may be asked about how agents are held, in words that every engine's statements answer."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from homeostat.core.records.enforcement import Control, Custody, Hold, Strategy
from homeostat.core.records.turn import AgentKey

Row = Sequence[Any]

_encoder = msgspec.json.Encoder()
_holds = msgspec.json.Decoder(Hold)
_custodies = msgspec.json.Decoder(Custody)
_controls = msgspec.json.Decoder(Control)
_ORDER: Final = list(Strategy)


def write_hold(hold: Hold) -> tuple[object, ...]:
    return (hold.project, hold.agent_id, hold.strategy.value, _encoder.encode(hold).decode())


class EnforcementKeeping(ABC):
    """Reads and writes by named statements. A keeper says how to run one."""

    @abstractmethod
    async def _all(self, name: str, *values: object) -> Sequence[Row]:
        """The rows of a statement that reads."""

    @abstractmethod
    async def _do(self, name: str, *values: object) -> Sequence[Row]:
        """The rows of a statement that writes, in a transaction of its own."""

    async def holds(self) -> list[Hold]:
        return [_holds.decode(row[0]) for row in await self._all("holds_all")]

    async def holds_of(self, key: AgentKey) -> list[Hold]:
        found = [_holds.decode(row[0]) for row in await self._all("holds_of_agent", *key)]
        return sorted(found, key=lambda hold: _ORDER.index(hold.strategy))

    async def drop_hold(self, key: AgentKey, strategy: Strategy) -> None:
        await self._do("hold_drop", *key, strategy.value)

    async def custodies(self) -> list[Custody]:
        return [_custodies.decode(row[0]) for row in await self._all("custodies_all")]

    async def put_custody(self, custody: Custody) -> None:
        await self._do("custody_put", *custody.key, _encoder.encode(custody).decode())

    async def drop_custody(self, key: AgentKey) -> None:
        await self._do("custody_drop", *key)

    async def control(self, key: AgentKey) -> Control | None:
        found = await self._all("control_get", *key)
        return _controls.decode(found[0][0]) if found else None

    async def put_control(self, control: Control) -> None:
        await self._do("control_put", *control.key, _encoder.encode(control).decode())

    async def drop_control(self, key: AgentKey) -> bool:
        return bool(await self._do("control_drop", *key))

    async def signing_key(self, fresh: str) -> str:
        await self._do("key_put", fresh)
        return (await self._all("key_get"))[0][0]
