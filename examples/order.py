"""A turn that must not do things twice: steps run once, tools are waited for without holding anything.

python -m examples.payments
homeostat worker examples.order:courier
homeostat worker examples.order:order
homeostat enqueue order '{"item": "lamp", "price": 12.5}' --wait
"""

from typing import Any

from homeostat import CallFailed, Turn


async def reserve(item: str) -> dict[str, Any]:
    """Stands for a call to some warehouse."""
    return {"item": item, "reservation": f"r-{len(item)}"}


async def let_go(reservation: str) -> None:
    """Stands for another one."""


async def order(turn: Turn) -> dict[str, Any]:
    """Reserve an item, have it paid for by a tool, and ask the courier's agent for a date."""
    reserved = await turn.step("reserve", reserve, turn.input["item"])
    try:
        paid, date = await turn.gather(
            turn.request("payments.charge", {"amount": turn.input["price"]}, timeout_seconds=60),
            turn.ask("courier", item=turn.input["item"]),
        )
    except CallFailed as problem:
        await turn.step("let go", let_go, reserved["reservation"])
        return {"ordered": False, "because": str(problem)}
    await turn.write("receipt", {"reservation": reserved["reservation"], "payment": paid})
    return {"ordered": True, "delivery": date}


async def courier(turn: Turn) -> str:
    """Says when it can come."""
    return f"tomorrow, with the {turn.input['item']}"
