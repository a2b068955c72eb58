-- Writers to the chain stand behind each other until they commit; a statement of its own, so that the next one sees what the last writer wrote.
SELECT pg_advisory_xact_lock(7700417)
