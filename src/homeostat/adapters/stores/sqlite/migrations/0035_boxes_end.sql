-- A box that has ended belongs to nobody (''), until its cards are taken away. Of those there are few, and they are found by an
-- index that holds them alone.

CREATE INDEX box_owners_ended ON box_owners (agent_id, project, box_id) WHERE agent_id = '';
