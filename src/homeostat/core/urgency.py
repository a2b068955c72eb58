"""Whether what is under way is an operator's word: such work goes ahead of what many agents ask for at once."""

from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from contextvars import Context

_urgent: Final[ContextVar[bool]] = ContextVar("urgent", default=False)

is_urgent: Final = _urgent.get


def urgent_context() -> "Context":
    """The present context, in which what is begun is urgent, and so is everything that it begins."""
    context = copy_context()
    context.run(_urgent.set, True)  # noqa: FBT003 - the value of the variable
    return context


def become_urgent() -> None:
    """From here on, what this task does is urgent: operators wait for it."""
    _urgent.set(True)
