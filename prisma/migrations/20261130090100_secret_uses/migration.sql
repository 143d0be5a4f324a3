-- Locks: none

-- Which secrets the processes that run now have.
CREATE TABLE "secret_uses" (
    "secrets" TEXT NOT NULL,
    "last_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "secret_uses_pkey" PRIMARY KEY ("secrets")
);
