-- CreateTable
CREATE TABLE "erasures" (
    "address_hash" TEXT NOT NULL,
    "erased_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "erasures_pkey" PRIMARY KEY ("address_hash")
);

