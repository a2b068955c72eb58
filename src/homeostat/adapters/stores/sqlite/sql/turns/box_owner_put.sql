-- Gives a box its writer; fails if it has one.
INSERT INTO box_owners (project, box_id, agent_id) VALUES (?, ?, ?)
