-- The youngest turn that retention took.
SELECT turn_id FROM swept
