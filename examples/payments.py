"""A tool service: functions that agents elsewhere may call.

python -m examples.payments
"""

import asyncio

from homeostat import ToolService, tool
from homeostat.client.client import Client
from homeostat.client.tools import HttpToolDesk


@tool(name="payments.charge")
async def charge(amount: float) -> dict[str, object]:
    """Charge an amount to the customer of the order."""
    if amount <= 0:
        raise ValueError("an amount is more than nothing")
    return {"charged": amount, "receipt": f"p-{int(amount * 100)}"}


async def main() -> None:
    async with Client() as client:
        await ToolService(HttpToolDesk(client), [charge]).run()


if __name__ == "__main__":
    asyncio.run(main())
