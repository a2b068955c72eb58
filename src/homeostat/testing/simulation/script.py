"""What a turn does when it runs: a script in its payload, so that every attempt follows the same one."""

from homeostat.core.codec import Json, to_json
from homeostat.core.ids import Chance

Op = list[object]

TOOLS = ("search", "shell", "mail")
DEPTH_MAX = 2


def draw_script(chance: Chance, agents: list[str], depth: int = 0, host: str = "") -> list[Op]:
    """A few things to do, ending in a deliverable."""
    ops: list[Op] = []
    for number in range(chance.choice((0, 0, 1, 1, 2, 3, 4))):
        kind = chance.choices(
            ("step", "pause", "card", "calls", "ask", "swap", "release", "die", "misbehave"),
            (8, 4, 2, 6, 3 if depth < DEPTH_MAX else 0, 1, 1, 0.6, 1.5),
        )[0]
        match kind:
            case "step":
                ops.append(["step", f"s{number}"])
            case "pause":
                ops.append(["pause", chance.choice((0.0, 0.01, 0.3, 1.0, 4.0))])
            case "calls":
                calls = [_call(chance, f"call_{number}_{index}") for index in range(chance.choice((1, 1, 2, 3)))]
                ops.append(["calls", calls])
            case "ask":
                other = chance.choice([agent for agent in agents if agent != host])
                inner = draw_script(chance, agents, depth + 1, other)
                ops.append(["ask", f"call_{number}_0", other, inner, chance.choice((3.0, 20.0))])
            case _:
                ops.append([kind])
    if chance.random() < 0.02:
        ops.insert(0, ["poison"])
    ops.append(["end", chance.choice(("success", "success", "success", "failed")), chance.random() < 0.7])
    return ops


def ask_late(script: list[Op], chance: Chance, agents: list[str], host: str) -> None:
    """Let a turn ask another agent at its end, after a while in which its run may be killed."""
    other = chance.choice([agent for agent in agents if agent != host])
    pause = chance.choice((0.3, 1.0, 4.0))
    script[-1:-1] = [["pause", pause], ["ask", "call_late", other, [["end", "success", False]], 3.0]]


def _call(chance: Chance, call_id: str) -> list[object]:
    after = "terminate" if chance.random() < 0.2 else "suspend"
    return [call_id, chance.choice(TOOLS), chance.choice((0.5, 2.0, 2.0, 8.0)), after]


def payload_of(tag: str, script: list[Op]) -> Json:
    return to_json({"tag": tag, "script": script})
