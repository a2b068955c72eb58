-- Which version of itself an agent says it is, in its own words.

ALTER TABLE agents ADD COLUMN version TEXT;
