-- Locks: emails ACCESS EXCLUSIVE

-- What follows an email that was sent or has failed: it came back, or an operator has dealt with it.
ALTER TYPE "EmailState" ADD VALUE IF NOT EXISTS 'bounced';
ALTER TYPE "EmailState" ADD VALUE IF NOT EXISTS 'dismissed';

ALTER TABLE "emails" ADD COLUMN "message_id" TEXT,
    ADD COLUMN "reply" TEXT;
