-- What of a task's turn stands in the ledger already, though the task has not ended: a JSON list, or null.

ALTER TABLE run_tasks ADD COLUMN noted TEXT;
