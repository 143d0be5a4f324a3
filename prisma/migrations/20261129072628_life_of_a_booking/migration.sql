-- Locks: forms ACCESS EXCLUSIVE

-- A form without updated_at has not changed since it was created.
ALTER TABLE "forms" ADD COLUMN "external_id" TEXT,
    ADD COLUMN "updated_at" TIMESTAMPTZ(3),
    ADD COLUMN "later_invitations" INTEGER NOT NULL DEFAULT 0;
