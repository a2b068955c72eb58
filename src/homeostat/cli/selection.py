"""Which agents a command is about: by type, by status, and by tags that they have or have not."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from homeostat.cli.failures import USAGE, explained, fail

if TYPE_CHECKING:
    from homeostat.core.filter import Filter

TypeOption = Annotated[str | None, typer.Option("--type", "-t", help="Only agents of this type.")]
StatusOption = Annotated[
    str | None,
    typer.Option("--status", "-s", help="alive, stale, dead, registered, running, idle, error or stopping."),
]
SelectorOption = Annotated[
    list[str] | None,
    typer.Option(
        "--selector", "-l", metavar="TAG,…", help="Only agents with all these tags; !TAG means without. Repeatable."
    ),
]
FilterOption = Annotated[
    str | None,
    typer.Option(
        "--query",
        "-q",
        metavar="FILTER",
        help="Only what fits, as in 'phase:quarantined tag:gpu cost>2 started>-1h'.",
    ),
]


@dataclass(frozen=True, slots=True)
class Selection:
    """What was asked for. The server filters by what it can, the rest is done here."""

    agent_type: str | None = None
    status: str | None = None
    with_tags: frozenset[str] = frozenset()
    without_tags: frozenset[str] = frozenset()
    query: str | None = None
    sought: "Filter | None" = None

    @property
    def asked(self) -> str | None:
        """All of it but the type and the status as one filter, for the server to sift by."""
        tags = [f'tag:"{tag}"' for tag in sorted(self.with_tags)]
        tags += [f'-tag:"{tag}"' for tag in sorted(self.without_tags)]
        return " ".join(([self.query] if self.query else []) + tags) or None

    @property
    def tag(self) -> str | None:
        """The tag that the live feed is asked to filter by; it takes no filter."""
        return min(self.with_tags, default=None)

    def covers(self, row: dict[str, Any]) -> bool:
        tags = set(row["tags"])
        return (
            (self.agent_type is None or row["agent_type"] == self.agent_type)
            and (self.status is None or self.status in (row["status"], row["presence"]))
            and self.with_tags <= tags
            and not self.without_tags & tags
            and (self.sought is None or self.sought.covers(row))
        )


def selection(
    agent_type: str | None, selectors: Iterable[str] | None, status: str | None = None, query: str | None = None
) -> Selection:
    """Read what was typed."""
    words = [word.strip() for selector in selectors or () for word in selector.split(",")]
    wanted = frozenset(word for word in words if word and not word.startswith("!"))
    unwanted = frozenset(word[1:] for word in words if word.startswith("!"))
    if not all(words) or "" in unwanted:
        raise fail("a selector names no tag", hint="Write it as -l gpu,primary or -l '!gpu'.", code=USAGE)
    if any('"' in word for word in words):
        raise fail("a tag has no quotation marks", hint="Write it as -l gpu,primary or -l '!gpu'.", code=USAGE)
    return Selection(agent_type, status, wanted, unwanted, query, sought("agents", query))


def sought(noun: str, query: str | None) -> "Filter | None":
    """Read a filter here, so that a wrong one is told before anybody is asked, and what is watched can be sifted."""
    if query is None:
        return None
    from homeostat.core.clock import SystemClock
    from homeostat.core.filter_fields import READERS

    with explained():
        return READERS[noun].read(query, now_ms=SystemClock().now_ms())
