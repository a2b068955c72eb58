"""How often an agent pushes: its own setting, else the lowest of its tags, else its type's, else the default."""

import math
from collections.abc import Mapping

from homeostat.core.errors import IntervalInvalid
from homeostat.core.limits import (
    PUSH_INTERVAL_SECONDS_DEFAULT,
    PUSH_INTERVAL_SECONDS_MAX,
    PUSH_INTERVAL_SECONDS_MIN,
)
from homeostat.core.ports.fleet import RegistryStore
from homeostat.core.records.fleet import IntervalScope, IntervalSetting, PushInterval, Registration

Settings = Mapping[tuple[IntervalScope, str], float]

BUILT_IN = PushInterval(PUSH_INTERVAL_SECONDS_DEFAULT, IntervalScope.DEFAULT)


def checked(seconds: float) -> float:
    """An interval an agent can keep; everything else is refused."""
    if not math.isfinite(seconds) or not PUSH_INTERVAL_SECONDS_MIN <= seconds <= PUSH_INTERVAL_SECONDS_MAX:
        raise IntervalInvalid(interval=seconds, low=PUSH_INTERVAL_SECONDS_MIN, high=PUSH_INTERVAL_SECONDS_MAX)
    return float(seconds)


def resolve(settings: Settings, entry: Registration) -> PushInterval:
    """The one rule by which every route finds an agent's interval."""
    if (own := settings.get((IntervalScope.AGENT, entry.agent_id))) is not None:
        return PushInterval(own, IntervalScope.AGENT)
    tagged = [(seconds, tag) for tag in entry.tags if (seconds := settings.get((IntervalScope.TAG, tag))) is not None]
    if tagged:
        seconds, tag = min(tagged)
        return PushInterval(seconds, f"{IntervalScope.TAG}:{tag}")
    if (typical := settings.get((IntervalScope.TYPE, entry.agent_type))) is not None:
        return PushInterval(typical, f"{IntervalScope.TYPE}:{entry.agent_type}")
    if (default := settings.get((IntervalScope.DEFAULT, ""))) is not None:
        return PushInterval(default, IntervalScope.DEFAULT)
    return BUILT_IN


class PushRates:
    """The settings as this process knows them. `version` changes with them, so that answers may be kept until then."""

    def __init__(self, *, store: RegistryStore) -> None:
        self._store = store
        self._settings: dict[tuple[IntervalScope, str], float] = {}
        self._revision = 0
        self.version = 0

    def of(self, entry: Registration) -> PushInterval:
        return resolve(self._settings, entry)

    def all(self) -> list[IntervalSetting]:
        return [IntervalSetting(scope, name, seconds) for (scope, name), seconds in self._settings.items()]

    async def set(self, scope: IntervalScope, name: str, seconds: float | None) -> IntervalSetting:
        """Set an interval, or take it back."""
        value = None if seconds is None else checked(seconds)
        written = await self._store.set_interval(IntervalSetting(scope, name, value))
        self._apply(written)
        return written

    async def refresh(self) -> list[IntervalSetting]:
        """See what others have set."""
        changed = await self._store.intervals(self._revision)
        for setting in changed:
            self._apply(setting)
            self._revision = max(self._revision, setting.revision)
        return changed

    def _apply(self, setting: IntervalSetting) -> None:
        if setting.seconds is None:
            self._settings.pop((setting.scope, setting.name), None)
        else:
            self._settings[setting.scope, setting.name] = setting.seconds
        self.version += 1
