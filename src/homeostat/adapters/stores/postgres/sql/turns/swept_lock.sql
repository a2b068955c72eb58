-- Of several processes that forget at once each waits for the one before: what two refer to, neither would take away.
SELECT turn_id FROM swept FOR UPDATE
