"""An incident for people: what was seen is told once, the strongest first, and so is what guesses rest on."""

from typing import Any, Final

Row = dict[str, Any]

CLOCK: Final = slice(11, 19)


def digest(row: Row) -> Row:
    """The members of an incident, with a line for each thing that was seen and for each guess."""
    return row | {
        "evidence": "\n".join(_seen(row["evidence"])),
        "hypotheses": "\n".join(_guessed(row["hypotheses"])),
    }


def _seen(evidence: list[Row]) -> list[str]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for one in sorted(evidence, key=lambda one: -one["sigma"]):
        groups.setdefault((one["kind"], one["vital"]), []).append(one)
    return [f"{group[0]['sigma']:.1f} sigma  {group[0]['why']}{_repeated(group)}" for group in groups.values()]


def _repeated(group: list[Row]) -> str:
    if len(group) == 1:
        return ""
    seen = sorted(one["at"][CLOCK] for one in group)
    return f" ({len(group)} times, {seen[0]} to {seen[-1]} UTC)"


def _guessed(hypotheses: list[Row]) -> list[str]:
    said = set[str]()
    lines: list[str] = []
    for one in hypotheses:
        fresh = [why for why in one["because"] if why not in said]
        said.update(fresh)
        lines.append(f"{one['confidence']:.0%}  {one['diagnosis']}: {'; '.join(fresh) or 'by the same signs'}")
    return lines
