-- Locks: forms SHARE UPDATE EXCLUSIVE

-- Contract: forms_listing_idx begins with the same columns, and serves the version before as well.
DROP INDEX CONCURRENTLY "forms_listing_id_created_at_id_idx";
