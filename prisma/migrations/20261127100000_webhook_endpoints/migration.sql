-- Locks: notifications ACCESS EXCLUSIVE
CREATE TABLE "webhook_endpoints" (
    "id" UUID PRIMARY KEY DEFAULT gen_random_uuid(),
    "user_id" UUID,
    "url" TEXT NOT NULL,
    "events" TEXT[],
    "listing_ids" UUID[],
    "secret" BYTEA NOT NULL,
    "previous_secrets" BYTEA[] DEFAULT ARRAY[]::BYTEA[],
    "previous_secrets_until" TIMESTAMPTZ(3)[] DEFAULT ARRAY[]::TIMESTAMPTZ(3)[],
    "disabled_at" TIMESTAMPTZ(3),
    "disabled_reason" TEXT,
    "failing_since" TIMESTAMPTZ(3),
    "paused_until" TIMESTAMPTZ(3),
    "revision" INTEGER NOT NULL DEFAULT 0,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP
);

CREATE INDEX "webhook_endpoints_user_id_created_at_id_idx" ON "webhook_endpoints"("user_id", "created_at", "id");
CREATE INDEX "webhook_endpoints_created_at_id_idx" ON "webhook_endpoints"("created_at", "id");

ALTER TYPE "NotificationState" ADD VALUE 'out_of_scope';

ALTER TABLE "notifications"
    ADD COLUMN "endpoint_id" UUID,
    ADD COLUMN "event_id" UUID,
    ADD COLUMN "event_type" TEXT,
    ADD COLUMN "audit_entry_id" BIGINT,
    ADD COLUMN "response_status" INTEGER,
    ADD COLUMN "response_body" TEXT,
    ADD COLUMN "duration_ms" INTEGER,
    ALTER COLUMN "form_id" DROP NOT NULL,
    ALTER COLUMN "check_in_date" DROP NOT NULL;
