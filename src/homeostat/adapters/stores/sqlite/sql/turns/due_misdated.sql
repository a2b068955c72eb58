-- Tool calls that began after ?1, if a clock is to be believed that nobody has now, among the next few that are open:
-- ?2 to ?4 name the one to go on behind, ?5 says how many to look at. The row without a tool is the last one looked at,
-- with how many they were.
WITH passed AS (
    SELECT turn_id, call_id, project, agent_id, tool, status, after_execution, step_id, call_card_id, result_card_id,
        created_at_ms, deadline_ms, answered_at_ms
    FROM waits WHERE status = 'pending' AND (deadline_ms, turn_id, call_id) > (?2, ?3, ?4)
    ORDER BY deadline_ms, turn_id, call_id LIMIT ?5
)
SELECT * FROM passed WHERE created_at_ms > ?1
UNION ALL
SELECT * FROM (
    SELECT turn_id, call_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
        (SELECT count(*) FROM passed), deadline_ms, NULL FROM passed
    ORDER BY deadline_ms DESC, turn_id DESC, call_id DESC LIMIT 1
)
