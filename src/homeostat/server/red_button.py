"""The red button over HTTP: everything stops, and nothing begins until it is lifted."""

from homeostat.core.clock import rfc3339
from homeostat.core.errors import Forbidden, InvalidRequest, Unauthenticated
from homeostat.core.records.run import RedButton
from homeostat.core.run_errors import RedButtonNotPressed
from homeostat.core.wire import runs as w
from homeostat.server import identity
from homeostat.server.call import Call
from homeostat.server.endpoints import Routes
from homeostat.server.runs import acting

routes = Routes("runs")


@routes.plain("GET", "/v1/red-button", gives=w.ButtonsShape)
async def read_buttons(call: Call) -> w.ButtonsShape:
    """The red buttons that are pressed: that of the whole system, and those of projects the caller may look into."""
    scope = call.principal.project
    pressed = [one for one in await call.system.runs.store.buttons() if scope is None or one.project in ("", scope)]
    return w.ButtonsShape(pressed=[_button(one) for one in pressed])


@routes.taking(
    "POST", "/v1/red-button", w.ButtonBody, gives=w.PressedShape, errors=(InvalidRequest, Forbidden, Unauthenticated)
)
async def press_button(call: Call, body: w.ButtonBody) -> w.PressedShape:
    """Kill every run of a project, or of the whole system, and let none begin until it is lifted."""
    await identity.require_operator(call, verb="press", what="the red button")
    if not body.reason.strip():
        raise InvalidRequest(problem="the red button needs a reason")
    if (named := call.query.get("project")) not in (None, body.project):
        raise InvalidRequest(problem=f"the query names project {named!r}; say in the body whose red button is meant")
    control = call.system.runs.control
    button, killed, finished = await control.press(body.project or "", who=acting(call, body))
    return w.PressedShape(button=_button(button), killed=list(killed), finished=list(finished))


@routes.taking(
    "DELETE",
    "/v1/red-button",
    w.LiftQuery,
    gives=w.ButtonsShape,
    errors=(RedButtonNotPressed, Forbidden, Unauthenticated),
)
async def lift_button(call: Call, query: w.LiftQuery) -> w.ButtonsShape:
    """Let runs begin again; what was killed stays killed. Answers with what is still pressed.

    One button is lifted: that of the project which is named, or that of the whole system. It takes no body.
    """
    await identity.require_operator(call, verb="lift", what="the red button")
    store = call.system.runs.store
    lifted = await store.lift(query.project or "")
    left = await store.buttons()
    if lifted is None:
        pressed = ", ".join(_whose(one.project) for one in left) or "none"
        raise RedButtonNotPressed(where=_whose(query.project or ""), pressed=pressed)
    return w.ButtonsShape(pressed=[_button(one) for one in left])


def _whose(project: str) -> str:
    return f"project {project!r}" if project else "the whole system"


def _button(button: RedButton) -> w.ButtonShape:
    return w.ButtonShape(
        project=button.project or None,
        actor=button.actor,
        reason=button.reason,
        pressed_at=rfc3339(button.pressed_at_ms),
    )
