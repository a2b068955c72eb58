-- Ends a box: nobody owns it from now on, and its cards are taken away.
INSERT INTO box_owners (project, box_id, agent_id) VALUES (?1, 'box_' || ?2, '')
ON CONFLICT (project, box_id) DO UPDATE SET agent_id = ''
