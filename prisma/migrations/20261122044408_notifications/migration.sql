-- CreateEnum
CREATE TYPE "NotificationState" AS ENUM ('waiting', 'running', 'retrying', 'failed', 'sent');

-- DropTable
DROP TABLE "workers";

-- CreateTable
CREATE TABLE "notifications" (
    "id" BIGSERIAL NOT NULL,
    "kind" TEXT NOT NULL,
    "form_id" UUID NOT NULL,
    "state" "NotificationState" NOT NULL DEFAULT 'waiting',
    "attempts" INTEGER NOT NULL DEFAULT 0,
    "last_error" TEXT,
    "next_attempt_at" TIMESTAMPTZ(3) DEFAULT CURRENT_TIMESTAMP,
    "worker_id" TEXT,
    "heartbeat_at" TIMESTAMPTZ(3),
    "sent_at" TIMESTAMPTZ(3),
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "notifications_pkey" PRIMARY KEY ("id")
);

-- CreateIndex
CREATE INDEX "notifications_form_id_idx" ON "notifications"("form_id");

-- CreateIndex
CREATE INDEX "notifications_unsent_idx" ON "notifications"("next_attempt_at") WHERE (state <> 'sent');

-- AddForeignKey
ALTER TABLE "notifications" ADD CONSTRAINT "notifications_form_id_fkey" FOREIGN KEY ("form_id") REFERENCES "forms"("id") ON DELETE CASCADE ON UPDATE CASCADE;
