-- Whether the one head had moved: no row means that everything is written.
SELECT $1::text, $2::text WHERE NOT EXISTS (SELECT FROM go)
