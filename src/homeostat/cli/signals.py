"""How a long-running command is told to end, and on which loop it runs."""

from typing import Any

from homeostat.cli.failures import INTERRUPTED


def heed_signals(stop: Any) -> None:
    """The first signal asks for an orderly end, the second one ends it."""
    import asyncio
    import os
    import signal

    def heed() -> None:
        if stop.is_set():
            os._exit(INTERRUPTED)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, heed)


def loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
