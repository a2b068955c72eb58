-- The runs that are held: none of their turns is given out.
SELECT run_id FROM run_gates WHERE state = 'held'
