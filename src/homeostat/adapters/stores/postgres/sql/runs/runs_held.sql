-- Paused runs whose turns were taken from them by force.
SELECT run_id FROM runs
WHERE status IN ('planning', 'planned', 'applying', 'paused') AND status = 'paused' AND run LIKE '%"forced":true%'
