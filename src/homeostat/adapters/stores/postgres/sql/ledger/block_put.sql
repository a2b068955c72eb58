-- Append entries that were written together; two entries of one number cannot be.
INSERT INTO ledger SELECT * FROM unnest($1::ledger[]) WHERE EXISTS (SELECT FROM go)
