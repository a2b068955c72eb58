-- The rows that hold a page of a run's ledger, in order; where entries are missing, what comes next. ?1 is the project, ?2
-- the run, ?3 the entry before the first, ?4 how many. The lines are read as bytes: a file that was tampered with may hold any.
SELECT first_seq, last_seq, CAST(lines AS BLOB) FROM ledger
WHERE run_id = ?2 AND project = ?1 AND last_seq > ?3
  AND first_seq >= coalesce((SELECT max(first_seq) FROM ledger WHERE run_id = ?2 AND first_seq <= ?3 + 1), 0)
  AND first_seq <= max(
    ?3 + ?4, coalesce((SELECT min(first_seq) FROM ledger WHERE run_id = ?2 AND first_seq > ?3), 0)
  )
ORDER BY first_seq
