"""What every benchmark shares: pairs of floor and subject taken in the same minute, medians, tables, JSON."""

import json
import platform
import resource
import statistics
import sysconfig
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

RESULTS = Path("benchmarks/results")

Rate = Callable[[], Awaitable[float]]


@dataclass
class Report:
    """Rows of one subject, printed as a table and kept as JSON beside it."""

    subject: str
    rows: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def add(self, name: str, **figures: Any) -> None:
        self.rows.append({"name": name, **figures})
        shown = "  ".join(f"{key}={_short(value)}" for key, value in figures.items())
        print(f"  {name:<44} {shown}", flush=True)

    def write(self) -> Path:
        RESULTS.mkdir(parents=True, exist_ok=True)
        path = RESULTS / f"{self.subject}.json"
        body = {
            "subject": self.subject,
            "taken_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "python": interpreter(),
            "machine": platform.machine(),
            "rows": self.rows,
        }
        path.write_text(json.dumps(body, indent=1) + "\n")
        print(f"  written to {path}")
        return path


def interpreter() -> str:
    """Which Python runs, and whether its compiler knew what is run often: that is worth almost a fifth."""
    guided = "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")
    return f"Python {platform.python_version()} ({'with' if guided else 'without'} profile-guided optimisation)"


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)


async def pairs(floor: Rate, subject: Rate, *, count: int = 5) -> tuple[float, float, float]:
    """Median floor, median subject, median of the ratios of neighbours: noise hits both of a pair alike."""
    floors: list[float] = []
    rates: list[float] = []
    for _ in range(count):
        floors.append(await floor())
        rates.append(await subject())
    ratios = [rate / base for rate, base in zip(rates, floors, strict=True)]
    return statistics.median(floors), statistics.median(rates), statistics.median(ratios)


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def cpu_seconds() -> float:
    """CPU of this process, all threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize()


def wall() -> float:
    return time.perf_counter()


def heading(text: str, facts: Mapping[str, object] | None = None) -> None:
    extra = "".join(f"  {key}={value}" for key, value in (facts or {}).items())
    print(f"\n{text}{extra}", flush=True)
