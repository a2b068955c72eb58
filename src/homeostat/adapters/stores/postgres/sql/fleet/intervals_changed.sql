-- Settings past a revision, in the order in which they changed.
SELECT scope, name, seconds, revision FROM push_intervals WHERE revision > $1 ORDER BY revision
