-- Everywhere that alerts go.
SELECT record FROM webhooks ORDER BY project, name
