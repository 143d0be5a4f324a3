-- CreateTable
CREATE TABLE "secret_checks" (
    "value" BYTEA NOT NULL,
    "newest_since" TIMESTAMPTZ(3),
    "registered_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "secret_checks_pkey" PRIMARY KEY ("value")
);
