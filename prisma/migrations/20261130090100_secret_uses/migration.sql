-- Which secrets the processes that run now have.
CREATE TABLE "secret_uses" (
    "process_id" UUID NOT NULL,
    "secrets" TEXT[],
    "last_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "secret_uses_pkey" PRIMARY KEY ("process_id")
);
