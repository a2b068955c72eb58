"""The vital signs an agent is watched by, and the kinds of anomaly they can show."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final


class Anomaly(StrEnum):
    """What a finding says is wrong."""

    TOKEN_SPIKE = "token_spike"  # noqa: S105 - a count of tokens, not a secret
    INPUT_TOKEN_SPIKE = "input_token_spike"  # noqa: S105
    OUTPUT_TOKEN_SPIKE = "output_token_spike"  # noqa: S105
    LATENCY_SPIKE = "latency_spike"
    COST_SPIKE = "cost_spike"
    TOOL_SPIKE = "tool_spike"
    RETRY_SPIKE = "retry_spike"
    ERROR_SPIKE = "error_spike"
    DRIFT = "drift"
    STUCK = "stuck"
    PROMPT_CHANGE = "prompt_change"
    REPEATED_CALL = "repeated_call"
    NEW_TOOL = "new_tool"
    NEW_TOOL_PAIR = "new_tool_pair"
    BORROWED_ARGUMENT = "borrowed_argument"
    TOOL_OUTPUT_ORDERS = "tool_output_orders"


class Vital(IntEnum):
    """The column of each vital sign in a sample."""

    LATENCY = 0
    TOKENS = 1
    TOKENS_IN = 2
    TOKENS_OUT = 3
    COST = 4
    TOOL_CALLS = 5
    RETRY_RATE = 6
    ERROR_RATE = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """How one vital is read.

    `unit` is the finest step worth telling apart: a spread narrower than that is not a spread, and
    the logarithmic histogram starts there. `falls` says that a drop is as telling as a rise, `freezes`
    that the same value over and over is a fault rather than its nature, `doubles` that lastingly twice the
    usual is one. `lowest` is the least value that can be true; anything below is a broken report and is ignored.
    """

    name: str
    kind: Anomaly
    unit: float
    falls: bool = False
    freezes: bool = True
    doubles: bool = True
    lowest: float = 0.0


GAUGES: Final[tuple[Gauge, ...]] = (
    Gauge(name="latency_ms", kind=Anomaly.LATENCY_SPIKE, unit=2.0),
    Gauge(name="tokens", kind=Anomaly.TOKEN_SPIKE, unit=2.0),
    Gauge(name="tokens_in", kind=Anomaly.INPUT_TOKEN_SPIKE, unit=2.0),
    Gauge(name="tokens_out", kind=Anomaly.OUTPUT_TOKEN_SPIKE, unit=2.0),
    Gauge(name="cost_usd", kind=Anomaly.COST_SPIKE, unit=2e-5),
    Gauge(name="tool_calls", kind=Anomaly.TOOL_SPIKE, unit=1.0, freezes=False),
    Gauge(name="retry_rate", kind=Anomaly.RETRY_SPIKE, unit=0.25, freezes=False),
    Gauge(name="error_rate", kind=Anomaly.ERROR_SPIKE, unit=0.25, freezes=False),
)
assert len(GAUGES) == len(Vital)
