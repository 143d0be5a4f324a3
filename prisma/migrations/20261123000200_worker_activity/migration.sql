-- CreateTable
CREATE TABLE "worker_activity" (
    "name" TEXT NOT NULL,
    "count" BIGINT NOT NULL,
    "last_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "worker_activity_pkey" PRIMARY KEY ("name")
);

