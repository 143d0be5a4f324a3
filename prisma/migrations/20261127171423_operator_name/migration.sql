-- Locks: audit_entries ACCESS EXCLUSIVE
ALTER TABLE "audit_entries" ADD COLUMN "actor_name" TEXT;
