-- Fails a save for which a mandate is void: the agents' projects ($1), ids ($2), and at which versions they were ($3).
UNION ALL SELECT NULL, NULL WHERE NOT mandates_hold($1::text[], $2::text[], $3::bigint[])
