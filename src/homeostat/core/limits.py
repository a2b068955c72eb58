"""Every bound in one place: nothing in Homeostat is unlimited."""

from typing import Final

# --- what a caller may send -------------------------------------------------------------------------------
PAYLOAD_BYTES_MAX: Final = 1 << 20  # one message, one result or one card; larger things belong behind a pointer
BODY_BYTES_MAX: Final = PAYLOAD_BYTES_MAX + (64 << 10)  # a request that carries one payload and its envelope
NAME_CHARS_MAX: Final = 200  # agent ids, tool names, correlation ids, step names
IDEMPOTENCY_KEY_CHARS_MAX: Final = 200
RESULT_FIELDS_MAX: Final = 64
WAITS_PER_TURN_MAX: Final = 256  # tool calls one turn may be suspended on
STEPS_PER_TURN_MAX: Final = 10_000
DEPTH_MAX: Final = 20  # calls between agents, counted from the first
QUEUE_PER_AGENT_MAX: Final = 1_000_000
JSON_DEPTH_MAX: Final = 128  # how deep arrays and objects may be nested; every reader can follow that far
QUERY_BYTES_MAX: Final = 8 << 10
DISCARD_BYTES_MAX: Final = 4 << 20  # of a refused body that is read and thrown away, so that its sender hears why
DISCARD_SECONDS_MAX: Final = 2.0

# --- workers elsewhere -------------------------------------------------------------------------------------
WORKER_SESSIONS_MAX: Final = 10_000  # workers one server keeps a berth for
HOSTED_PER_SESSION_MAX: Final = 10_000
CLAIM_WAIT_SECONDS_MAX: Final = 30.0  # a claim or a renewal is held open this long at most

# --- one transaction ---------------------------------------------------------------------------------------
FLUSH_COMMANDS_MAX: Final = 256  # commands that share one commit
ENQUEUED_TOGETHER_MAX: Final = 16  # messages to one agent that are one command
FLUSH_SPLIT_MIN: Final = 20  # commands that are worth two commits at once rather than one
FLUSH_WAITING_MAX: Final = 20_000  # commands in memory before new messages are turned away
FLUSH_CONFLICTS_MAX: Final = 16  # lost races in a row before a command is answered with "try again"
RIDERS_TOGETHER: Final = 64  # so many of them go at once
RIDE_SECONDS: Final = 0.05  # how long a command that is in no hurry waits for others to share a commit with
CLAIM_BATCH_MAX: Final = 64  # turns granted by one claim
QUEUE_FRONT: Final = 16  # queued turns kept at hand per agent
READ_ON_ROWS_MAX: Final = 64  # read at a time behind a front that belongs to runs which are held
READ_ON_PAGES_MAX: Final = 64  # and how often: more than the runs of a busy agent have in line
LEDGER_RETENTION_SECONDS: Final = 90 * 24 * 3600.0  # ledgers of runs that ended stay in the store this long
LEDGER_SWEEP_SECONDS: Final = 60.0  # between two looks for older ones
LEDGER_SWEEP_RUNS_MAX: Final = 32
LEDGER_SWEEP_ENTRIES_MAX: Final = 10_000  # one round takes about as many away
RUN_GATHER_SECONDS_MAX: Final = 0.05  # ends of tasks wait for others at most this long, and no longer than a save takes
CHRONICLE_SECONDS: Final = 1.0  # a task that takes longer has its calls in the ledger before its outcome
CHRONICLE_SECONDS_MAX: Final = 8.0  # between two looks at tasks that do nothing new
CHRONICLE_TASKS_MAX: Final = 256  # looked at together
OUTLIVED_NOTES_MAX: Final = (
    1_000  # told of turns that outlive others, as a run remembers: beyond, their ends are untold
)
CALL_SETTLES_SECONDS: Final = 5.0  # after the end of its turn, within which a model call is expected in the log
CLOSED_RUNS_MAX: Final = 10_000  # runs that a kernel remembers to be over
MAILBOXES_CACHED_MAX: Final = 8_192
MAILBOX_CACHED_PAYLOAD_BYTES_MAX: Final = 16 << 10  # larger payloads are read again instead of held
DELIVERABLES_CACHED_MAX: Final = 4_096
DELIVERABLES_READ_MAX: Final = 256  # ends of turns that are looked for with one statement
LEFT_CACHED_MAX: Final = 2_048  # turns of runs whose remains are held until the ledger has them
LEFT_CHARS_MAX: Final = 8 << 10  # what left more behind is read again instead
STORE_LANES: Final = 2  # saves of one process that a PostgreSQL store works on at once
STORE_URGENT: Final = 2  # connections that are there for operators alone, made when the first of them says something
LOOP_COMMIT_SECONDS_MAX: Final = 0.002  # commits on SQLite that take less on the average are made by the event loop
LOOP_URGENT_SECONDS_MAX: Final = 0.02  # and those an operator waits for, if they take less than this
APART_TIMES_MAX: Final = 4  # how many times as long a thread may take for a save as a commit of the loop does
LOOP_LOCK_SECONDS_MAX: Final = 0.015  # how long the loop waits for another writer on an operator's behalf
STANDSTILL_TICK_SECONDS: Final = 0.025  # how often a process looks whether it stood still; what is shorter goes unseen
STANDSTILL_SHARE_MAX: Final = 0.25  # of the time of a call or turn; where it was more, nobody knows how long that took
STANDSTILLS_KEPT_MAX: Final = 256  # the last ones, which is some seconds of a loop that is always late
LOG_PAGES: Final = 16_384  # of the log on SQLite before it is carried into the file
LOG_REST_PAGES: Final = 256  # so few are carried between two saves
LOG_ROUNDS_MAX: Final = 4  # attempts to get that far beside them
LOG_LOOK_SAVES: Final = 16  # saves between two looks at the log's length
LOG_BYTES_MAX: Final = 33_554_432  # a log this long is carried over at once, however few saves it took
STORE_CONNECTIONS_MAX: Final = 8  # readers of one process on a PostgreSQL store

# --- the gateway -------------------------------------------------------------------------------------------
OUTPUT_TOKENS_DEFAULT: Final = 16_384  # reserved, and asked for, where a budget holds and the agent names no cap
OUTPUT_TOKENS_LEAST: Final = 16  # an answer shorter than this is not worth asking for
OPAQUE_PART_TOKENS: Final = 50_000  # a picture or a file, whose tokens its bytes do not tell
UNSEEN_PROMPT_TOKENS: Final = 1_000_000  # a prompt that lies with the upstream
TOKENS_MAX: Final = 1 << 40  # of one call; no honest request or report has more
ANSWERS_MAX: Final = 4_096  # choices asked for at once
TOOLS_LOGGED_MAX: Final = 256  # names of offered tools in a row of the call log
RATE_WINDOW_SECONDS: Final = 60
RATE_PORTION_SECONDS: Final = 1  # how long room that was drawn ahead may be used before it goes back
RATE_FLOAT_CALLS: Final = 8  # calls' room of a rate limit that a gateway draws ahead at least
RATE_KEPT_SECONDS: Final = RATE_WINDOW_SECONDS + RATE_PORTION_SECONDS + 1  # a minute from its last possible use
RATE_REFUSAL_SECONDS: Final = 0.1  # how long a refusal is believed before the store is asked again
POLICIES_MAX: Final = 10_000
POLICY_STALE_SECONDS: Final = 0.05  # how long policies are believed before the store is asked whether they changed
POLICY_STALE_SECONDS_MAX: Final = 0.09  # and how long while that question is under way
POLICY_OUTAGE_SECONDS: Final = 5.0  # and how long while the store is silent: no window is longer than this
CHAINS_CACHED_MAX: Final = 100_000  # agents whose policies are kept composed
ACCOUNTS_CACHED_MAX: Final = 100_000  # budgets a gateway knows of, or knows not to exist
BUDGET_FLOAT_CALLS: Final = 2  # calls' worth of a budget that a gateway keeps at hand; lost should it be killed
BUDGET_FLOAT_SECONDS: Final = 1.0  # and for how long after the last one
BUDGET_RETRIES: Final = 4  # how often a call is made smaller until it fits what is left
GATEWAY_LEASE_SECONDS: Final = 10.0  # a gateway that was silent this long is dead, and its calls are settled
FLIGHT_SECONDS: Final = 0.1  # a call that is open this long is written down, in case nobody lives to write the rest
POSTING_SECONDS: Final = 0.05  # how long what nobody waits for is collected before it is written
GATEWAYS_TELL_SECONDS: Final = 0.5  # within which a gateway has written what it knew of, be it open or over
POSTING_DRAWS_MAX: Final = 1_024
POSTING_CALLS_MAX: Final = 2_048
CALLS_BUFFERED_MAX: Final = 50_000  # rows of the call log that wait while the store is away; then the oldest go
CALL_RETENTION_SECONDS: Final = 7 * 24 * 3600.0
REFUSAL_WINDOW_MS: Final = 1_000  # equal refusals within this time share a row of the call log
KEYS_CACHED_MAX: Final = 100_000
ASSIGNMENT_STALE_SECONDS = 0.1  # a call that names no turn may count for the one before it for so long
ASSIGNMENTS_CACHED_MAX = 100_000
KEY_STALE_SECONDS: Final = 2.0  # how long a key is believed before the register is asked again
PATIENCE_SECONDS: Final = 0.05  # a call that takes longer is watched: does the agent still wait?
PING_SECONDS: Final = 15.0  # silence of an upstream after which a stream gets a comment
CLIENT_STALL_SECONDS: Final = 60.0  # how long an agent may not read before its call is given up
ANSWER_BYTES_READ_MAX: Final = 32 << 20  # a longer answer passes, but what it used is estimated
PRICES_CACHED_MAX: Final = 4_096  # model names, which agents choose
EVENT_BYTES_MAX: Final = 8 << 20  # one event of a stream; a longer one passes unread
TOOL_CALLS_SEEN_MAX: Final = 256  # tool calls of one answer that are remembered
CALL_BODY_BYTES_MAX: Final = 64 << 20  # one request of an agent, pictures included
UPSTREAM_BUFFER_BYTES_MAX: Final = 256 << 10  # read ahead of a client that is slower than its upstream
UPSTREAM_HEADER_BYTES_MAX: Final = 64 << 10
UPSTREAM_CONNECTIONS_MAX: Final = 1_024  # to one upstream, from one process
UPSTREAM_IDLE_SECONDS: Final = 4.0  # a connection nobody used this long is closed by us, before the other side does
UPSTREAM_CONNECT_SECONDS: Final = 10.0
UPSTREAM_CONNECT_ATTEMPTS: Final = 3
UPSTREAM_FIRST_BYTE_SECONDS: Final = 600.0  # reasoning models think before they speak
UPSTREAM_SILENCE_SECONDS: Final = 120.0  # in the middle of an answer
UPSTREAM_SWEEP_SECONDS: Final = 0.25  # how exactly time-outs are kept
HEARING_BYTES_MAX: Final = 64 << 20  # requests whose tool results wait to be looked at; beyond it they go unheard
HEARING_CHARS_MAX: Final = 1 << 20  # of one conversation, its latest part
HEARING_TEXTS_MAX: Final = 256
MEMORY_BODY_BYTES_MAX: Final = 16 << 20  # what another memory learned, in one document
MEMORY_LESSONS_MAX: Final = 50_000
MEMORY_FEEDBACK_MAX: Final = 10_000
MEMORY_VETOES_MAX: Final = 10_000
LESSON_COUNT_MAX: Final = 1_000_000  # one remedy on one agent; at the most often it takes ten years
OTLP_BODY_BYTES_MAX: Final = 8 << 20  # one export of spans, packed and unpacked
OTLP_SPANS_MAX: Final = 10_000  # in one export
OTLP_ATTRIBUTES_MAX: Final = 256  # of one span; later ones are not read
OTLP_DEPTH_MAX: Final = 8  # how deep an attribute may be nested

# --- ledgers -----------------------------------------------------------------------------------------------
PLANS_AT_HAND_MAX: Final = 8  # plans that are remembered until somebody drives their runs
TASKS_IN_A_ROW: Final = 32  # how far tasks are is kept for as many of them together
STATE_ROWS_LATEST: Final = 8  # where most of what a run has in hand is found; only if there is more, in the others
STATE_ROWS_AT_HAND_MAX: Final = 64  # such rows of a run that whoever saved them last need not read again
PLAN_ROW_CHARS: Final = 1 << 18  # tasks of a plan share a row up to this length
LEDGER_BLOCK_CHARS: Final = 1 << 18  # entries that are written together share a row up to this length
ENTRY_BYTES_MAX: Final = 8 << 20  # one entry of a ledger: a call with its arguments and its answer, each a payload

# --- time --------------------------------------------------------------------------------------------------
LEASE_SECONDS: Final = 10.0  # how long a silent worker keeps its turns
LEASE_BEATS: Final = 3  # renewals per lease
ATTEMPTS_MAX: Final = 5  # times a turn is started before it fails for good
WAIT_SECONDS_DEFAULT: Final = 300.0  # a tool call without a deadline of its own
WAIT_SECONDS_MAX: Final = 7 * 24 * 3600.0
RING_AT_ONE_SECONDS: Final = 0.25  # a process that was rung at and did not come: then all are
RERING_SECONDS: Final = 5.0  # a dispatched turn nobody claimed is announced again
WATCHDOG_IDLE_SECONDS: Final = 5.0  # how long the watchdog sleeps when nothing is due
SAFETY_POLL_SECONDS: Final = 15.0  # a parked worker looks for itself, should every doorbell be lost
DELIVERABLE_WAIT_SECONDS_MAX: Final = 60.0
STORE_SECONDS_MAX: Final = 20.0  # a statement that takes longer is given up, its outcome unknown
STORE_CONNECT_SECONDS_MAX: Final = 5.0  # and a connection that takes longer, which nobody can be worse off for
CLOCK_OFFSET_SECONDS: Final = 0.5  # a machine's clock that differs from the store's by less is left as it is
CLOCK_READING_SECONDS_MAX: Final = 1.0  # a look at the store's clock that took longer tells too little
CLOCK_READINGS_MAX: Final = 3  # looks before anything else is done, if none of them was quick
CLOCK_EVERY_SECONDS: Final = 2.0  # between two looks, shorter than any lease but the shortest
CLOCK_JUMP_SECONDS: Final = 0.25  # and how soon one is taken after this machine's clock was set

# --- the bus -----------------------------------------------------------------------------------------------
SUBJECT_TOKEN_CHARS_MAX: Final = 600  # two names and the rest fit the 4 KiB line of NATS, whatever is in them
BUS_BATCH_MAX: Final = 512  # events sent before their receipts are awaited
BUS_PARCEL_BYTES_MAX: Final = 64 << 10  # payloads that share a message; servers take up to a megabyte
BUS_RECEIPT_SECONDS: Final = 2.0  # without a receipt by then, events count as not handed over
BUS_UNSENT_BYTES_MAX: Final = 4 << 20  # what the server has not read yet; beyond it the bus counts as away
BUS_CONNECT_SECONDS: Final = 2.0
BUS_RECONNECT_SECONDS: Final = (0.05, 2.0)  # the first pause between two attempts, and the longest
BUS_BEAT_SECONDS: Final = 5.0  # how often silent parties say that they are there
BUS_PENDING_MAX: Final = 8_192  # events that wait for one slow listener; later ones it misses
BUS_KEEP_SECONDS: Final = 3600.0  # how long a listener may be away and still hear everything
BUS_KEEP_BYTES: Final = 256 << 20  # and how much may have been said meanwhile, per stream

# --- sweeps ------------------------------------------------------------------------------------------------
SWEEP_ROWS_MAX: Final = 256  # rows one sweep touches before it yields
SWEEP_ROUNDS_MAX: Final = 40  # and how often it goes on at once when more is due
ORPHAN_ROWS_MAX: Final = 5_000  # heads one round looks at for workers that left no trace
MISDATED_ROWS_MAX: Final = 1_000  # open tool calls one round looks at for dates that a wrong clock wrote
RETENTION_SECONDS: Final = 7 * 24 * 3600.0  # finished turns stay readable this long
RETENTION_PAUSE_SECONDS: Final = 0.05  # at least this long nothing is forgotten between two rounds of it
OUTBOX_GRACE_SECONDS: Final = 2.0  # after this an unpublished row is anybody's
OUTBOX_PLAIN_BYTES_MAX: Final = 1_024  # announcements that are not worth packing
TURNS_LOCATED_MAX: Final = 20_000  # turns of which a kernel remembers whose they are
OUTBOX_BUFFER_MAX: Final = 4_096  # events held in memory for the relay; beyond it they wait in the store

PROMPT_CHARS_MAX: Final = 100_000  # of a prompt that a replay tries
CURSOR_MAX: Final = 1 << 53  # of a cursor that is a number; every reader of JSON can tell it from the next
PAGE_DEFAULT: Final = 50
PAGE_MAX: Final = 500
OPERATIONS_RUNNING_MAX: Final = 64  # long work of one process at a time
OPERATION_HELD_SECONDS: Final = 15.0  # unless it is renewed; then its process is gone, and what it was at is lost
OPERATION_KEPT_SECONDS: Final = 86_400.0  # since it began, unless somebody is still at it
DRILL_SECONDS_MAX: Final = 120.0  # until an agent must be held in a drill; else it is over
FILTER_CHARS_MAX: Final = 512
FILTER_TERMS_MAX: Final = 16
FILTER_SCAN_ROWS_MAX: Final = 5_000  # looked at for one page; where more may fit, the cursor goes on

# --- agents ------------------------------------------------------------------------------------------------
LIFECYCLE_SECONDS: Final = 30.0  # startup and shutdown, each, unless an agent's configuration says otherwise
TREATMENTS_KEPT_MAX = 16  # times one remedy of one agent is noted, and so outlives its worker
TREATMENT_SECONDS = 24 * 3600.0  # how long they do
LIFECYCLE_GRACE_SECONDS: Final = 0.5  # how long a hook that was told to stop may take before it is left behind
STARTUP_RETRIES_MAX: Final = 100
STARTUP_RETRY_SECONDS: Final = 0.02  # the first pause between two attempts; it doubles
STARTUP_RETRY_SECONDS_MAX: Final = 2.0
EMIT_SECONDS: Final = 1.0  # what a lifecycle event may cost the agent it is about
MEMORY_KEYS_MAX: Final = 1_000  # per agent
GREEDY_TURNS_MAX: Final = 16  # turns of one agent in a row before others get their chance
WORKER_CONCURRENCY: Final = 64  # turns a worker works on side by side
DEFERRALS_MAX: Final = 5  # times a turn is begun again in place because something was unavailable
DEFERRAL_SECONDS: Final = 0.5  # the first pause before that; it doubles
DEFERRAL_SECONDS_MAX: Final = 8.0
MODEL_ATTEMPTS_MAX: Final = 4  # times a model call is made before it counts as unavailable
UNSTORED_TURNS_MAX: Final = 1_000  # turns a worker lost with steps done and not stored, should they come back to it
STOP_SECONDS: Final = 20.0  # what running turns get to end by themselves when a worker stops
CLAIM_SECONDS: Final = 20.0  # one long look for turns
ERROR_CHARS_MAX: Final = 4_000  # of an exception's words in a deliverable
STEP_ERROR_CHARS_MAX: Final = 2_000  # of it in the outcome of a step
TOOLS_MAX: Final = 1_000  # per project
TOOL_CALLS_BATCH_MAX: Final = 64  # calls handed to a tool service at once
TOOL_HOLD_SECONDS: Final = 60.0  # how long a call stays with a service that is not heard from
TOOL_CONCURRENCY: Final = 16  # calls a tool service makes side by side

# --- the fleet ---------------------------------------------------------------------------------------------
PUSH_INTERVAL_SECONDS_DEFAULT: Final = 30.0  # where no setting says otherwise
PUSH_INTERVAL_SECONDS_MIN: Final = 0.1  # below it agents would do little but beat
PUSH_INTERVAL_SECONDS_MAX: Final = 3600.0
STALE_INTERVALS: Final = 3  # intervals of silence after which an agent is stale
DEAD_INTERVALS: Final = 5  # and after which it is dead
AGENT_EXPIRY_SECONDS: Final = 24 * 3600.0  # how long a dead agent stays listed
FLEET_BODY_BYTES_MAX: Final = 64 << 10  # a heartbeat, a registration, a setting
TAGS_MAX: Final = 64
TAG_CHARS_MAX: Final = 100
TYPE_CHARS_MAX: Final = 100
VERSION_CHARS_MAX: Final = 100
HOSTNAME_CHARS_MAX: Final = 255  # the longest a DNS name may be
LAST_ACTION_CHARS_MAX: Final = 500  # longer descriptions are cut: a talkative agent is not a dead one
METRIC_MAX: Final = 1e15  # no honest count or measure is larger
HISTORY_SAMPLES_MAX: Final = 60  # heartbeats remembered per agent, for graphs
FLEET_SWEEP_IDLE_SECONDS: Final = 1.0  # the sweep looks at least this often
LISTENING_GAP_SECONDS: Final = 5.0  # if nobody looked for longer, the silence was ours and not the agents'
STANDINGS_SAVED_SECONDS: Final = 30.0  # how often the in-process keeper writes down what changed
REGISTRY_POLL_SECONDS: Final = 5.0  # how late another process' registration may be seen, should its word be lost
BEATS_PER_ROUND_TRIP_MAX: Final = 128
REGISTRATIONS_PER_COMMIT_MAX: Final = 64
REGISTRATION_REPEAT_SECONDS: Final = 600.0  # how long one whose answer was lost may be asked for again under its key
STATUS_TIMEOUT_SECONDS: Final = 2.0  # how long a status server may take to answer

APPROVED_HOURS_MAX: Final = 24.0 * 7  # how long a yes to one question may answer those alike

# --- the live feed -----------------------------------------------------------------------------------------
FRAME_GAP_SECONDS: Final = 0.25  # heartbeats of this long share one message; what agents do at once is not held back
RELAY_GAP_SECONDS: Final = 0.05  # and this long on their way to other processes
ANNOUNCED_CHANGES_MAX: Final = 1_000  # changes in one event on the bus, well below what a bus would carry
FRAMES_KEPT_MAX: Final = 64  # messages a reader may lag behind before it is resynchronised
RESUME_SECONDS: Final = 60.0  # how long updates are kept for readers that left, once the last one has
UPDATES_KEPT_MAX: Final = 8_192  # updates a reader may have missed and still resume
FRAME_UPDATES_MAX: Final = 1_000  # updates in one message
SNAPSHOT_AGENTS_MAX: Final = 500  # agents in one message of a snapshot
SNAPSHOT_REUSE_SECONDS: Final = 1.0  # readers that come together share one snapshot
READERS_WOKEN_MAX: Final = 32  # readers served before heartbeats get their turn again
READER_BYTES_MAX: Final = (
    128 << 10
)  # what is under way to one reader; beyond it the reader is waited for, by nobody else
READERS_MAX: Final = 10_000

# --- events ------------------------------------------------------------------------------------------------
EVENTS_KEPT_MAX: Final = 8_192  # events a reader may have missed and still resume
EVENTS_TAIL_MAX: Final = 500  # past events a new reader may begin with
EVENT_GAP_SECONDS: Final = 0.1  # events of this long are handed out together
EVENT_BEAT_SECONDS: Final = 10.0  # a reader hears at least this often, if only that there is nothing new
ADMITTED_SECONDS: Final = 5.0  # for so long a reader goes on reading whose key was revoked
EVENT_READER_SECONDS: Final = 0.0006  # what each reader adds to that, so that many together cost no more than a few do
EVENT_BATCH_MAX: Final = 256  # events written to one reader at once
ORDER_RACES_MAX: Final = 4  # races that an operator's order may lose to the immune system itself
VITALS_KEPT_MAX: Final = 180  # samples remembered per agent, for graphs
VITALS_AGENTS_MAX: Final = 2_000  # agents whose samples are remembered; those silent longest go first
VITALS_SPARK_MAX: Final = 24  # samples of each agent in a list of agents
PROMPT_CALLS_MAX: Final = 5_000  # calls of an agent that are read to tell when its prompt changed
PROMPTS_MAX: Final = 50  # prompts of an agent that are told apart in an answer
SPENDING_SETTLED_SECONDS: Final = 900.0  # calls begun longer ago than this are in the log, or as good as lost
SPENDING_STALE_SECONDS: Final = 5.0  # how old sums of spending may be that several readers share
TRAFFIC_MINUTES: Final = 60
TRAFFIC_NAMES_MAX: Final = 64  # models told apart in one minute: agents choose their names

# --- runs --------------------------------------------------------------------------------------------------
GOAL_CHARS_MAX: Final = 20_000
TASKS_PER_RUN_MAX: Final = 20_000
TASK_DEPENDENCIES_MAX: Final = 1_000
TASKS_ASKED_MAX: Final = 100_000  # of as many runs one question tells what is in hand, or of one
TASKS_PARALLEL_DEFAULT: Final = 64  # turns of one run at a time
TASKS_PARALLEL_MAX: Final = 1_000
TASK_RETRIES_MAX: Final = 100
TASK_RETRIES_DEFAULT: Final = 3  # where a task says that it is to be retried, and not how often
TASK_BACKOFF_SECONDS_MAX: Final = 3600.0  # it doubles with every attempt up to this
TASK_SECONDS_MAX: Final = 7 * 24 * 3600.0
BUDGET_MAX: Final = 1 << 50
PLANNER_SECONDS: Final = 300.0  # what a planning function may take, unless a setting says otherwise
PLANNER_SECONDS_MAX: Final = 24 * 3600.0
PLANNER_THREADS_MAX: Final = 64  # planning functions at work in one process, those that were given up among them
RUN_KEYS_KEPT_MAX: Final = 16  # requests that changed a run and may be repeated
RUN_CONFLICTS_MAX: Final = 32  # lost races in a row before an operator is told to try again
RUN_LEASE_SECONDS: Final = 10.0  # how long a silent process keeps its runs
RUNS_CLAIMED_MAX: Final = 64  # runs that one look takes over
RUNS_SEEN_SECONDS: Final = 1.0  # how late a change by another process may be seen, should its word be lost
RUN_CALLS_BATCH_MAX: Final = 500  # model calls that are brought into a ledger at once
