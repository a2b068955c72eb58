"""What is said over the custody socket: claims and news one way, answers and orders the other, a line each."""

from enum import StrEnum
from typing import Annotated

import msgspec

from homeostat.core.wire.fields import Body, Name, Shape

LINE_BYTES_MAX = 16 << 10


class Claim(Body, frozen=True, kw_only=True):
    """Whoever speaks is an agent, or starts it. Who that is the kernel says, not the speaker."""

    api_key: Annotated[str, msgspec.Meta(max_length=200)]
    supervises: bool = False
    shared: bool = False  # the process hosts others too: it is not stopped for one of them
    control_url: Annotated[str, msgspec.Meta(max_length=500)] = ""


class News(Body, frozen=True, kw_only=True):
    """What a supervisor has done: the process it has started."""

    spawned: int


class Answer(Shape, frozen=True, kw_only=True):
    """What became of a claim."""

    taken: bool
    code: str = ""
    message: str = ""


class OrderWord(StrEnum):
    """What a supervisor is told to do when its command ends."""

    RESTART = "restart"
    LEAVE = "leave"


class Order(Shape, frozen=True, kw_only=True):
    """Word from the server to a supervisor."""

    order: OrderWord


class CustodyShape(Shape, frozen=True, kw_only=True):
    """Where agents of the server's own machine are taken into custody; an empty path where they are not."""

    socket: Name | None
    boot_id: str
    control_key: str
