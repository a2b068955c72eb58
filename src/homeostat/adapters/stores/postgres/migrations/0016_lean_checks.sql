-- PostgreSQL's lists of words are cheap, and its heads have had a holder from the beginning: there is nothing to change.

COMMENT ON COLUMN heads.holder IS 'the worker that had the agent''s last turn, kept when the turn ends';
