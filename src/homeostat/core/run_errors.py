"""What can be wrong with what is asked of a run.

ProtocolViolation: RunUnknown · TaskUnknown · PlanInvalid · TargetUnknown · PlannerUnknown
Conflict:          RunFinished · RunOvertaken · RunUnapplied · TaskSettled · TurnExists · RunClosed · RunHeld
                   LedgerSwept · RedButtonNotPressed · BudgetOfRun · RunNotRecorded
Refused:           RedButtonPressed
"""

from homeostat.core.errors import Conflict, ProtocolViolation, Refused


class RunUnknown(ProtocolViolation):
    """There is no run {run_id!r}."""

    code = "run_unknown"
    http_status = 404
    hint = "GET /v1/runs lists them."


class TaskUnknown(ProtocolViolation):
    """Run {run_id} has no task {task!r}."""

    code = "task_unknown"
    http_status = 404


class PlanInvalid(ProtocolViolation):
    """The plan cannot be carried out: {problem}."""

    code = "plan_invalid"
    hint = "Each task names one agent, type or tag, and in `after` other tasks of the plan, never in a circle."


class TargetUnknown(ProtocolViolation):
    """Task {task!r} is meant for {target}, and there is no such agent."""

    code = "target_unknown"
    hint = "Register the agent first, or name another agent, type or tag."


class PlannerUnknown(ProtocolViolation):
    """There is no planner {planner!r}."""

    code = "planner_unknown"
    hint = (
        "Name a registered agent, a function that every server was started with "
        "(`homeostat up --planners NAME=module:function`), or send the tasks yourself."
    )


class RunFinished(Conflict):
    """Run {run_id} is {state} since {at}, by {actor} ({reason}); it cannot {verb} any more."""

    code = "run_finished"
    hint = "What has ended stays as it is. Begin another run: POST /v1/runs, or `homeostat run`."


class RunOvertaken(Conflict):
    """Run {run_id} cannot {verb}: it is {state} since {at}, by {actor} ({reason})."""

    code = "run_overtaken"
    hint = "Somebody else was first. Look at the run again, then decide."


class RunUnapplied(Conflict):
    """Run {run_id} is {state} and was never applied: there is nothing to resume."""

    code = "run_unapplied"
    hint = "Once it is planned, apply it: POST /v1/runs/{id}/apply, or `homeostat apply RUN`."


class TaskSettled(Conflict):
    """Task {task!r} of run {run_id} waits for no approval: it is {state}{answered}."""

    code = "task_settled"
    hint = "The first answer holds. GET /v1/runs/{id}/tasks/{task} shows what became of it."


class TurnExists(Conflict):
    """There is a turn {turn_id} already."""

    code = "turn_exists"


class RunClosed(Conflict):
    """Run {run_id} has ended: it starts nothing any more."""

    code = "run_closed"


class RunHeld(Conflict):
    """Run {run_id} is held: it starts no task until it is resumed."""

    code = "run_held"


class BudgetOfRun(Conflict):
    """The budget of run {run_id}, which is {state}, is changed with the run, so that the run and its ledger say so."""

    code = "budget_of_run"
    hint = (
        "Pause the run, and resume it with another budget: POST /v1/runs/{id}/resume, "
        "or `homeostat resume RUN --budget usd=2,tokens=50000,time=10m`."
    )


class LedgerSwept(Conflict):
    """The ledger of run {run_id} left this store on {at}, when its time was over; nobody tampered with it."""

    code = "ledger_swept"
    http_status = 410
    hint = (
        "Its signed head stays (GET /v1/runs/{id}/head): check a bundle that you exported with `homeostat verify FILE`."
    )


class RunNotRecorded(Conflict):
    """Run {run_id} was begun without `replay`: its ledger does not tell what its code would have to be run again on."""

    code = "run_not_recorded"
    hint = "`homeostat verify RUN` and `homeostat ledger RUN` read it; begin the next one with `replay`, the default."


class RedButtonPressed(Refused):
    """No run may begin: {actor} pressed the red button of {where} at {at} ({reason})."""

    code = "red_button_pressed"
    http_status = 409
    hint = (
        "Lift it first: `homeostat red-button --lift`, or DELETE /v1/red-button; a project's with `--in PROJECT`, "
        "or `?project=PROJECT`."
    )


class RedButtonNotPressed(Conflict):
    """The red button of {where} is not pressed; pressed: {pressed}."""

    code = "red_button_not_pressed"
    hint = "Name the one that is meant: `--in PROJECT`, or `?project=PROJECT`; without it, it is the whole system's."
