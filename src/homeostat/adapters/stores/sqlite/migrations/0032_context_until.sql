-- Up to where a turn reads its context: the last position its box had when the turn was pointed at it, or -1 less that if nothing lay
-- at 0 then, where the end of the box's own turn comes to lie. Turns of before have none, and read all there is.

ALTER TABLE turns ADD COLUMN context_until INTEGER;
