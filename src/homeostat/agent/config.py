"""How patient a lifecycle is: its bounds, retries and rollback."""

import math
from dataclasses import dataclass

from homeostat.core.errors import SettingInvalid
from homeostat.core.limits import LIFECYCLE_SECONDS, STARTUP_RETRIES_MAX


@dataclass(frozen=True, slots=True)
class LifecycleConfig:
    """What `startup()` and `shutdown()` promise to keep to.

    `timeout_seconds` bounds a startup with all its retries, and each clean-up. `max_retries` counts attempts after
    the first one, and matters only with `retry_on_failure`. With `cleanup_on_error` a failed startup is rolled back
    and the agent is terminated; without it what was allocated stays until `shutdown()`.
    """

    timeout_seconds: float = LIFECYCLE_SECONDS
    retry_on_failure: bool = False
    max_retries: int = 3
    cleanup_on_error: bool = True

    def __post_init__(self) -> None:
        if not (math.isfinite(self.timeout_seconds) and self.timeout_seconds > 0):
            raise SettingInvalid(setting="timeout_seconds", problem=f"{self.timeout_seconds} is not a time to wait")
        if not 0 <= self.max_retries <= STARTUP_RETRIES_MAX:
            raise SettingInvalid(setting="max_retries", problem=f"it lies between 0 and {STARTUP_RETRIES_MAX}")

    @property
    def attempts(self) -> int:
        return 1 + (self.max_retries if self.retry_on_failure else 0)
