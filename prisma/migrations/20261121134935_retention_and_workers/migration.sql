-- CreateTable
CREATE TABLE "workers" (
    "id" TEXT NOT NULL,
    "seen_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "workers_pkey" PRIMARY KEY ("id")
);

-- CreateIndex
CREATE INDEX "forms_email_due_idx" ON "forms"("check_out_date") WHERE (guest_email IS NOT NULL);
