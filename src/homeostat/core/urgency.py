"""Whether what is under way is an operator's word: such work goes ahead of what many agents ask for at once."""

from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from contextvars import Context


class Haste:
    """How urgent something is that goes on by itself, and may become so when somebody begins to wait for it."""

    __slots__ = ("urgent",)

    def __init__(self, *, urgent: bool = False) -> None:
        self.urgent = urgent

    def context(self) -> "Context":
        """The present context, in which what is begun has this haste, and so has everything that it begins."""
        context = copy_context()
        context.run(_haste.set, self)
        return context


_haste: Final[ContextVar[Haste]] = ContextVar("haste", default=Haste())  # noqa: B039 - nobody has this one in hand


def is_urgent() -> bool:
    return _haste.get().urgent


def urgent_context() -> "Context":
    """The present context, in which what is begun is urgent, and so is everything that it begins."""
    return Haste(urgent=True).context()


def become_urgent() -> None:
    """From here on, what this task does is urgent: operators wait for it."""
    _haste.set(Haste(urgent=True))
