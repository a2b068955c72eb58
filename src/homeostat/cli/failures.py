"""How a command ends when something is wrong: one line that says what, one that says what to do, and an exit code."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import typer

OK: Final = 0
ERROR: Final = 1
USAGE: Final = 2
HELD: Final = 3
INTERRUPTED: Final = 130

KEY_HINT: Final = (
    "export HOMEOSTAT_KEY=… with one that `homeostat key create` made, or that `homeostat up` showed first."
)
STORE_HINT: Final = "Is it running, and is --store-url or HOMEOSTAT_STORE_URL right? `homeostat doctor` looks at it."
EXIT_CODES: Final = (
    "Exit codes: 0 it worked, 1 it did not, 2 it was asked for in the wrong way, "
    "3 it is held and waits for somebody, 130 interrupted."
)


def fail(message: str, *, hint: str = "", code: int = ERROR) -> typer.Exit:
    """Say what is wrong on the error stream; raise what this returns."""
    typer.echo(f"homeostat: {message}", err=True)
    if hint:
        typer.echo(f"  {hint}", err=True)
    return typer.Exit(code)


def require(reason: str) -> None:
    """Whoever stops something says why."""
    if not reason.strip():
        raise fail("say why", hint='--reason "what happened"', code=USAGE)


@contextmanager
def explained(*, store: bool = False) -> Generator[None, None, None]:
    """Tell errors of ours in words instead of a traceback. `store` is of a command that opens one itself."""
    from homeostat.core.errors import HomeostatError, SettingInvalid, StoreUnavailable, Unauthenticated
    from homeostat.core.filter import FilterInvalid

    try:
        yield
    except (SettingInvalid, FilterInvalid) as error:
        raise fail(error.message, hint=error.hint, code=USAGE) from error
    except Unauthenticated as error:
        raise fail(error.message, hint=KEY_HINT) from error
    except StoreUnavailable as error:
        raise fail(error.message, hint=STORE_HINT if store else error.hint) from error
    except HomeostatError as error:
        raise fail(error.message, hint=error.hint) from error
