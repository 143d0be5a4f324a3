-- Locks: forms SHARE UPDATE EXCLUSIVE and reads it

-- With the columns, because Postgres reads a form if an index has only an expression of them.
CREATE INDEX CONCURRENTLY "forms_updated_idx" ON "forms" ((coalesce("updated_at", "created_at"))) INCLUDE ("updated_at", "created_at");
