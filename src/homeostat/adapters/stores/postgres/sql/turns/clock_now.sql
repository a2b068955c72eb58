-- What time it is here, in milliseconds: now, and not when the transaction began. All who share a store go by it.
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8
