"""The help of `homeostat` by what people want to do, instead of one long list."""

from collections.abc import Iterable
from typing import Any, Final

from typer import BadParameter
from typer.core import TyperGroup

from homeostat.cli.nouns import kind_of

GROUPS: Final = {
    "Run it": ("up", "demo", "worker", "exec", "server", "gateway", "immune"),
    "Watch": ("get", "describe", "why", "top", "events", "logs", "turn", "ui", "doctor"),
    "Operate": (
        "enqueue",
        "quarantine",
        "release",
        "heal",
        "approve",
        "reject",
        "cordon",
        "uncordon",
        "drain",
        "kill",
        "requeue",
        "receipt",
        "drill",
        "baseline",
        "treatment",
        "memory",
    ),
    "Runs": (
        *("run", "plan", "apply", "pause", "resume", "tasks", "ledger", "replay", "verify", "export", "red-button"),
    ),
    "Administer": ("config", "key", "webhook", "db", "bench"),
}

SENTENCE_CHARS_MAX: Final = 200  # the whole first sentence: what is cut is of no help


class Whole(TyperGroup):
    """Tells the whole first sentence of every command."""

    def rows(self, names: Iterable[str]) -> list[tuple[str, str]]:
        found = [(name, self.commands[name]) for name in names if name in self.commands]
        return [(name, one.get_short_help_str(SENTENCE_CHARS_MAX)) for name, one in found if not one.hidden]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        _write(formatter, "Commands", self.rows(self.list_commands(ctx)))


class OfThings(Whole):
    """Commands named by a kind of thing. An id alone will do: it says which kind it is of; else it is an agent's."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands:
            kind = kind_of(args[0])
            args = [kind, *args] if kind in self.commands else args
        return super().resolve_command(ctx, args)


class Grouped(Whole):
    """Lists commands under what they are for; whatever has no place there is shown all the same."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BadParameter as wrong:
            wrong.message = wrong.message.removeprefix("Value error, ")  # how the framework's framework puts it
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - the signature is the framework's
        placed = {name for names in GROUPS.values() for name in names}
        groups = {**GROUPS, "Other": tuple(name for name in self.commands if name not in placed)}
        for title, names in groups.items():
            _write(formatter, title, self.rows(names))


def _write(formatter: Any, title: str, rows: list[tuple[str, str]]) -> None:
    if rows:
        with formatter.section(title):
            formatter.write_dl(rows, col_max=30)
