-- Waits for saves that name a box, and lets none of them in until this transaction is over.
SELECT pg_advisory_xact_lock(hashtextextended('box_' || $1::text, 0))
