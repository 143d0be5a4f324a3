-- Which timelines the primary's WAL has had.
CREATE TABLE "timelines" (
    "id" TEXT NOT NULL,
    "mark" UUID NOT NULL DEFAULT gen_random_uuid(),

    CONSTRAINT "timelines_pkey" PRIMARY KEY ("id")
);
