"""What a model's tokens cost, in whole numbers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    """Micro-dollars per million tokens of each kind. What has no price of its own costs what input costs."""

    input: int
    output: int
    cache_read: int
    cache_write: int

    def cost(self, fresh: int, cached: int, written: int, output: int) -> int:
        """Micro-dollars, rounded up: nothing that was used is free because it is little."""
        total = fresh * self.input + cached * self.cache_read + written * self.cache_write + output * self.output
        return -(-total // 1_000_000)


@dataclass(frozen=True, slots=True)
class Price:
    """A model's rates. A tier replaces the base for the whole call once the input is longer than its start."""

    model: str
    base: Rate
    tiers: tuple[tuple[int, Rate], ...] = ()
    context_window: int | None = None

    def rate(self, tokens_in: int) -> Rate:
        rate = self.base
        for start, dearer in self.tiers:
            if tokens_in > start:
                rate = dearer
        return rate
