"""The help of `homeostat` by what people want to do, instead of one long list."""

from typing import Any, Final

from typer import BadParameter
from typer.core import TyperGroup

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
    ),
    "Runs": ("run", "apply", "pause", "resume", "replay", "verify", "export", "red-button"),
    "Administer": ("config", "key", "db", "bench"),
}


class Grouped(TyperGroup):
    """Lists commands under what they are for; whatever has no place there is shown all the same."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BadParameter as wrong:
            wrong.message = wrong.message.removeprefix("Value error, ")  # how the framework's framework puts it
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - the signature is the framework's
        known = {name: command for name, command in self.commands.items() if not command.hidden}
        placed = {name for names in GROUPS.values() for name in names}
        groups = {**GROUPS, "Other": tuple(name for name in known if name not in placed)}
        width = formatter.width - 6 - max(map(len, known), default=0)
        for title, names in groups.items():
            rows = [(name, known[name].get_short_help_str(width)) for name in names if name in known]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows, col_max=30)
