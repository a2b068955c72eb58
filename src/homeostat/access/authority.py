"""Who may do what: one table, one question. What has no row here is allowed to nobody who had to log in."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.records.access import Principal, PrincipalKind, Role

VIEW: Final = frozenset(Role)
OPERATE: Final = frozenset({Role.OPERATOR, Role.ADMIN})
APPROVE: Final = frozenset({Role.APPROVER, Role.ADMIN})
ADMIN: Final = frozenset({Role.ADMIN})
NO_ROLE: Final = frozenset[Role]()


class Agents(StrEnum):
    """How far an agent's own key reaches."""

    NEVER = "never"
    OWN = "own"  # itself, and what belongs to it
    ANY = "any"  # whatever its project has


@dataclass(frozen=True, slots=True)
class Row:
    """One verb, which is the name of a route: who may, and whether it is an act to be written down."""

    verb: str
    roles: frozenset[Role]
    agents: Agents = Agents.NEVER
    open: bool = False  # to everybody, known or not
    audited: bool = False
    shows: str = ""  # the route that shows the object, for what it was before and after
    dry_run: bool = False  # `?dry_run=true` tells what it would reach
    everywhere: bool = False  # it reaches into every project, and so must the key


@dataclass(frozen=True, slots=True)
class Object:
    """What somebody wants to act on: in which project, and whose it is."""

    project: ProjectId
    agent_id: AgentId | None = None


def _open(*verbs: str) -> tuple[Row, ...]:
    return tuple(Row(verb, VIEW, Agents.ANY, open=True) for verb in verbs)


def _view(*verbs: str, agents: Agents = Agents.NEVER) -> tuple[Row, ...]:
    return tuple(Row(verb, VIEW, agents) for verb in verbs)


def _act(
    verb: str,
    roles: frozenset[Role] = OPERATE,
    *,
    shows: str = "",
    agents: Agents = Agents.NEVER,
    dry_run: bool = False,
    everywhere: bool = False,
) -> Row:
    return Row(verb, roles, agents, audited=True, shows=shows, dry_run=dry_run, everywhere=everywhere)


ROWS: Final = (
    # Whether it lives, what it can do, and the way in.
    *_open(
        "livez", "readyz", "read_openapi", "read_page", "read_error_page", "read_session", "login", "login_by_ticket"
    ),
    *_open("oidc_begin", "oidc_end", "logout", "read_dashboard", "read_asset"),
    *_view(
        "read_metrics",
        "read_gateway",
        "read_overview",
        "read_traffic",
        "list_heads",
        "list_turns",
        "list_today",
        "follow_events",
    ),
    *_view("read_vitals", "read_prompts", agents=Agents.OWN),
    Row("make_ticket", VIEW),
    # Who may come in, and what was done.
    Row("list_keys", ADMIN),
    *(_act(verb, ADMIN) for verb in ("create_key", "rotate_key", "revoke_key")),
    *(Row(verb, ADMIN) for verb in ("list_webhooks", "list_deliveries")),
    *(_act(verb, ADMIN) for verb in ("put_webhook", "drop_webhook", "test_webhook")),
    *_view("list_audit", "verify_audit", "export_audit"),
    # Messages and turns: what agents exchange, all agents of a project may read.
    Row("send_message", OPERATE, Agents.ANY),
    Row("report", OPERATE, Agents.OWN),
    _act("stop_turn", agents=Agents.OWN, dry_run=True),
    _act("requeue_turn", shows="read_turn", dry_run=True),
    *_view("read_turn", "read_deliverable", "read_edges", "read_card", "read_box", agents=Agents.ANY),
    *_view("read_head", "read_inbox", "read_turns", "read_memory", agents=Agents.OWN),
    *(Row(verb, OPERATE, Agents.ANY) for verb in ("create_box", "fork_box")),
    _act("end_box", agents=Agents.ANY),  # which ones an agent may end, the route itself checks
    Row("change_memory", OPERATE, Agents.OWN),
    # Workers hold turns under a session; whose it is, and what it may host, the session itself checks.
    *(Row(verb, OPERATE, Agents.ANY) for verb in ("open_session", "host_agents", "close_session")),
    *(Row(verb, OPERATE, Agents.ANY) for verb in ("claim_turns", "renew_lease", "hydrate", "store_step")),
    *(Row(verb, OPERATE, Agents.ANY) for verb in ("write_cards", "swap_boxes", "suspend_turn", "deliver_turn")),
    *(Row(verb, OPERATE, Agents.ANY) for verb in ("release_turn", "emit_chunk")),
    # Tools.
    *_view("read_tools", agents=Agents.ANY),
    *(Row(verb, OPERATE) for verb in ("register_tools", "take_calls")),
    # The fleet. An agent that comes back proves who it is by the key it was given, though it is on no register now.
    Row("register", OPERATE, Agents.OWN, open=True),
    Row("push_status", NO_ROLE, Agents.ANY),
    _act("deregister", shows="read_agent", agents=Agents.OWN, dry_run=True),
    *_view("list_agents", "read_agent", "follow_status", agents=Agents.ANY),
    *_view("read_history", "read_interval", "read_health", "read_baseline", "read_receipt", agents=Agents.OWN),
    *(_act(verb, shows="read_interval") for verb in ("set_agent_interval", "unset_agent_interval")),
    *(_act(f"{verb}_{what}_interval", everywhere=True) for verb in ("set", "unset") for what in ("type", "tag")),
    *(_act(f"{verb}_default_interval", everywhere=True) for verb in ("set", "unset")),
    # The gateway.
    *_view("list_policies", "read_policy", "list_budgets", "read_budget"),
    *_view("list_calls", "read_open_calls", agents=Agents.ANY),
    _act("put_policy", dry_run=True),
    _act("put_named_policy", shows="read_policy", dry_run=True),
    _act("drop_policy", shows="read_policy"),
    _act("drop_policies", dry_run=True),
    *(_act(verb, shows="read_budget") for verb in ("put_budget", "drop_budget")),
    # Runs. Whoever lets a task go that waits for it answers for it; the whole system's red button needs all projects.
    *_view("list_runs", "read_run", "list_tasks", "read_task", agents=Agents.ANY),
    *_view("read_buttons", "read_ledger", "follow_ledger", "read_ledger_head", "verify_run", "export_run"),
    Row("replay_run", OPERATE),
    _act("create_run"),
    *(_act(f"{verb}_run", shows="read_run") for verb in ("plan", "apply", "resume")),
    *(_act(f"{verb}_run", shows="read_run", dry_run=True) for verb in ("pause", "kill")),
    *(_act(f"{verb}_task", APPROVE, shows="read_task", dry_run=True) for verb in ("approve", "reject")),
    _act("press_button", shows="read_buttons", everywhere=True, dry_run=True),
    _act("lift_button", shows="read_buttons", everywhere=True),
    # Health. What isolates may be done by operators; who lets out or consents to a treatment answers for it.
    Row("post_vitals", OPERATE, Agents.ANY),
    Row("take_traces", OPERATE, Agents.ANY),
    *_view("read_custody", agents=Agents.ANY),
    *_view("read_control"),
    *(_act(verb, shows="read_control") for verb in ("set_control", "unset_control")),
    *_view("list_operations", "read_operation"),
    _act("drill_agent", shows="read_health", dry_run=True),
    *_view("read_approval", "read_call", "explain_incident", "explain_approval", "explain_call"),
    *_view("explain_agent", agents=Agents.OWN),
    *_view("explain_run", "explain_turn", agents=Agents.ANY),
    *_view("list_incidents", "read_incident", "list_approvals", "read_lessons"),
    *(_act(verb, shows="read_health", dry_run=True) for verb in ("quarantine_agent", "kill_agent")),
    *(_act(verb, shows="read_health", dry_run=True) for verb in ("release_agent", "heal_agent")),
    *_view("read_cordon", agents=Agents.OWN),
    *(_act(verb, shows="read_cordon", dry_run=True) for verb in ("cordon_agent", "drain_agent")),
    _act("uncordon_agent", shows="read_cordon"),
    *(_act(verb, APPROVE, dry_run=True) for verb in ("approve", "reject")),
    _act("approve_all", APPROVE),
    *(_act(verb) for verb in ("post_feedback", "withdraw_feedback", "veto_remedy", "lift_veto")),
    *_view("export_memory"),
    _act("import_memory", everywhere=True, dry_run=True),  # what it teaches, the ladders of every project heed
    *(_act(verb, shows="read_health") for verb in ("reset_baseline", "accelerate_baseline")),
    *_view("read_treatments", agents=Agents.OWN),
    _act("lift_treatments", shows="read_treatments", dry_run=True),
)
"""Every verb there is. A test asks it for each route, each role, and what is one's own and another's."""

TABLE: Final = {row.verb: row for row in ROWS}
assert len(TABLE) == len(ROWS), "a verb has two rows"


def authorize(principal: Principal, verb: str, target: Object) -> bool:
    """Whether somebody may do something to something; the only place that decides it."""
    if principal.kind is PrincipalKind.LOCAL:
        return True
    row = TABLE.get(verb)
    if row is None:
        return False
    if row.open:
        return True
    if principal.kind is PrincipalKind.NOBODY or principal.project not in (None, target.project):
        return False
    if principal.kind is PrincipalKind.AGENT:
        return row.agents is Agents.ANY or (row.agents is Agents.OWN and principal.agent_id == target.agent_id)
    return principal.role in row.roles and not (row.everywhere and principal.project is not None)
