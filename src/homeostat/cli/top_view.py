"""What `homeostat top` draws: a frame is a function of the fleet, the size of the terminal and what was asked for."""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from homeostat.cli.fleet_view import TOP_COLUMNS, Beside, cells, summary, urgency
from homeostat.cli.tables import Layout, Screen, cut, plain, styled

Row = dict[str, Any]

RATE_SECONDS: Final = 10.0  # heartbeats are counted over this long
HELP: Final = "q quit  s sort  r reverse  ↑↓ scroll"
FRAME_LINES: Final = 4  # title, summary, heading and help


class Order(StrEnum):
    """What agents are sorted by."""

    URGENCY = "urgency"
    ID = "id"
    QUEUE = "queue"
    ERRORS = "errors"
    MEMORY = "memory"
    SEEN = "seen"


_KEYS: Final[dict[Order, Callable[[Row], Any]]] = {
    Order.ID: lambda row: row["agent_id"],
    Order.QUEUE: lambda row: (-(row["queue_depth"] or 0), row["agent_id"]),
    Order.ERRORS: lambda row: (-(row["error_count"] or 0), row["agent_id"]),
    Order.MEMORY: lambda row: (-(row["memory_mb"] or 0), row["agent_id"]),
    Order.SEEN: lambda row: (row["last_seen_at"] or "", row["agent_id"]),
}


class Rate:
    """How many heartbeats came per second, of late."""

    def __init__(self) -> None:
        self._counts: deque[tuple[float, int]] = deque()
        self._since: float | None = None

    def add(self, count: int, at: float) -> None:
        self._since = at if self._since is None else self._since
        self._counts.append((at, count))

    def per_second(self, now: float) -> float:
        while self._counts and self._counts[0][0] < now - RATE_SECONDS:
            self._counts.popleft()
        if self._since is None:
            return 0.0
        return sum(count for _, count in self._counts) / min(RATE_SECONDS, max(now - self._since, 1.0))


@dataclass(slots=True)
class TopView:
    """What a person has chosen to see."""

    place: str
    order: Order = Order.URGENCY
    reverse: bool = False
    first: int = 0
    beside: Beside | None = None

    def press(self, key: str) -> bool:
        """Heed a key; False if it means to leave."""
        match key:
            case "q" | "Q" | "\x03" | "\x04":
                return False
            case "s":
                orders = list(Order)
                self.order = orders[(orders.index(self.order) + 1) % len(orders)]
                self.first = 0
            case "r":
                self.reverse = not self.reverse
            case "j" | "\x1b[B":
                self.first += 1
            case "k" | "\x1b[A":
                self.first -= 1
            case " " | "\x1b[6~":
                self.first += 10
            case "b" | "\x1b[5~":
                self.first -= 10
            case "g" | "\x1b[H":
                self.first = 0
            case _:
                pass
        return True

    def frame(
        self, rows: Iterable[Row], *, on: Screen, height: int, now_ms: int, rate: float, problem: str = ""
    ) -> list[str]:
        """Exactly as many lines as fit, none wider than the terminal."""
        width = on.width or 80
        by = _KEYS.get(self.order, lambda row: urgency(row, self.beside))
        found = sorted(rows, key=by, reverse=self.reverse)
        shown = max(height - FRAME_LINES, 1)
        self.first = max(0, min(self.first, len(found) - shown))
        window = found[self.first : self.first + shown]
        made = [cells(row, TOP_COLUMNS, now_ms=now_ms, beside=self.beside) for row in window]
        layout = Layout(TOP_COLUMNS, made, width=width)
        title = cut(f"homeostat top  {plain(self.place)}", width)
        told = f"{summary(found, self.beside)}   {rate:,.1f} beats/s" if found else "no agents"
        lines = [
            styled(title, "bold", on=on),
            styled(cut(f"not connected: {plain(problem)}", width), "red bold", on=on) if problem else cut(told, width),
            layout.heading(on=on),
            *(layout.line(row, on=on) for row in made),
        ]
        lines += [""] * (height - 1 - len(lines))
        span = f"{self.first + 1}-{self.first + len(window)} of {len(found)}" if found else ""
        order = f"by {self.order}{' reversed' if self.reverse else ''}"
        lines.append(styled(cut(f"{span}  {order}   {HELP}".strip(), width), "dim", on=on))
        return lines[:height]
