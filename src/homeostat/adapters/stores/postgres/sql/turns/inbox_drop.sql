-- Takes turns out of the line; of the rows that come in only the keys count.
DELETE FROM inbox AS i USING unnest($1::inbox[]) AS d
WHERE (SELECT ok FROM go) AND i.project = d.project AND i.agent_id = d.agent_id AND i.seq = d.seq
