-- Locks: idempotency_keys ACCESS EXCLUSIVE
ALTER TABLE "idempotency_keys" ADD COLUMN     "retention_starts_at" TIMESTAMPTZ(3);
