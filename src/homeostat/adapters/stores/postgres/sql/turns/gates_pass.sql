-- Fails a save that would start what a run may not; $1 are the runs, $2 those of them of which it would give out a turn, and
-- $3 those of which it would start a task.
UNION ALL SELECT NULL, NULL WHERE NOT run_gates_pass($1::text[], $2::text[], $3::text[])
