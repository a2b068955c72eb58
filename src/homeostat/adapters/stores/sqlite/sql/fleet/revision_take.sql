-- The next revision, taken under the write lock, so that revisions become visible in their order.
UPDATE fleet_revision SET revision = revision + 1 RETURNING revision
