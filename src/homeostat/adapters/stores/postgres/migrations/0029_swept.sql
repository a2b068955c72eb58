-- Up to where retention has forgotten turns: the youngest it took. What is missing behind it was taken by somebody else. Of turns
-- that are missing before there was this mark nobody can tell.

CREATE TABLE swept (
    one     smallint NOT NULL CHECK (one = 1),
    turn_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (one)
);

INSERT INTO swept (one, turn_id) SELECT 1, coalesce(max(turn_id), '') FROM turns;
