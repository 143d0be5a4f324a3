-- CreateEnum
CREATE TYPE "MembershipRole" AS ENUM ('OWNER', 'WRITER', 'READER');

-- CreateEnum
CREATE TYPE "KeyMode" AS ENUM ('READ_WRITE', 'READ_ONLY');

-- CreateTable
CREATE TABLE "users" (
    "id" UUID NOT NULL DEFAULT gen_random_uuid(),
    "email" TEXT NOT NULL,
    "name" TEXT,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "users_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "listings" (
    "id" UUID NOT NULL DEFAULT gen_random_uuid(),
    "public_id" TEXT NOT NULL,
    "title" TEXT NOT NULL,
    "address" TEXT NOT NULL,
    "city" TEXT NOT NULL,
    "country" TEXT NOT NULL,
    "zip_code" TEXT NOT NULL,
    "district" TEXT,
    "timezone" TEXT NOT NULL,
    "active" BOOLEAN NOT NULL DEFAULT true,
    "max_people_in_listing" INTEGER,
    "max_vehicles" INTEGER,
    "allow_pets" BOOLEAN,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "listings_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "memberships" (
    "user_id" UUID NOT NULL,
    "listing_id" UUID NOT NULL,
    "role" "MembershipRole" NOT NULL,
    "listing_created_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "memberships_pkey" PRIMARY KEY ("user_id","listing_id")
);

-- CreateTable
CREATE TABLE "api_keys" (
    "id" UUID NOT NULL DEFAULT gen_random_uuid(),
    "user_id" UUID NOT NULL,
    "hash" BYTEA NOT NULL,
    "prefix" TEXT NOT NULL,
    "mode" "KeyMode" NOT NULL,
    "label" TEXT,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "expires_at" TIMESTAMPTZ(3),
    "revoked_at" TIMESTAMPTZ(3),
    "last_used_at" TIMESTAMPTZ(3),

    CONSTRAINT "api_keys_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "forms" (
    "id" UUID NOT NULL DEFAULT gen_random_uuid(),
    "public_id" TEXT NOT NULL,
    "listing_id" UUID NOT NULL,
    "status" TEXT NOT NULL DEFAULT 'SENT',
    "check_in_date" TIMESTAMPTZ(3),
    "check_out_date" TIMESTAMPTZ(3),
    "number_of_guests" INTEGER,
    "number_of_vehicles" INTEGER,
    "number_of_pets" INTEGER,
    "guest_email" BYTEA,
    "fingerprint" BYTEA NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "forms_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "creations" (
    "form_id" UUID NOT NULL,
    "holder_id" UUID NOT NULL,
    "fingerprint" BYTEA NOT NULL,
    "current_fingerprint" BYTEA,
    "answer" JSONB NOT NULL,

    CONSTRAINT "creations_pkey" PRIMARY KEY ("form_id")
);

-- CreateTable
CREATE TABLE "idempotency_keys" (
    "holder_id" UUID NOT NULL,
    "key" TEXT NOT NULL,
    "form_id" UUID NOT NULL,

    CONSTRAINT "idempotency_keys_pkey" PRIMARY KEY ("holder_id","key")
);

-- CreateTable
CREATE TABLE "audit_entries" (
    "id" BIGSERIAL NOT NULL,
    "at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "actor" TEXT NOT NULL,
    "actor_id" UUID,
    "action" TEXT NOT NULL,
    "subject_id" UUID NOT NULL,
    "correlation_id" UUID NOT NULL,
    "details" JSONB NOT NULL DEFAULT '{}',

    CONSTRAINT "audit_entries_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "stored_secrets" (
    "id" SERIAL NOT NULL,
    "secret" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "stored_secrets_pkey" PRIMARY KEY ("id")
);

-- CreateIndex
CREATE UNIQUE INDEX "users_email_key" ON "users"("email");

-- CreateIndex
CREATE UNIQUE INDEX "listings_public_id_key" ON "listings"("public_id");

-- CreateIndex
CREATE UNIQUE INDEX "listings_id_created_at_key" ON "listings"("id", "created_at");

-- CreateIndex
CREATE INDEX "memberships_user_id_listing_created_at_listing_id_role_idx" ON "memberships"("user_id", "listing_created_at", "listing_id", "role");

-- CreateIndex
CREATE INDEX "memberships_listing_id_idx" ON "memberships"("listing_id");

-- CreateIndex
CREATE UNIQUE INDEX "api_keys_hash_key" ON "api_keys"("hash");

-- CreateIndex
CREATE INDEX "api_keys_user_id_created_at_id_idx" ON "api_keys"("user_id", "created_at", "id");

-- CreateIndex
CREATE INDEX "api_keys_created_at_id_idx" ON "api_keys"("created_at", "id");

-- CreateIndex
CREATE UNIQUE INDEX "forms_public_id_key" ON "forms"("public_id");

-- CreateIndex
CREATE INDEX "forms_created_at_id_idx" ON "forms"("created_at", "id");

-- CreateIndex
CREATE INDEX "forms_listing_id_created_at_id_idx" ON "forms"("listing_id", "created_at", "id");

-- CreateIndex
CREATE UNIQUE INDEX "creations_holder_id_current_fingerprint_key" ON "creations"("holder_id", "current_fingerprint");

-- CreateIndex
CREATE INDEX "idempotency_keys_form_id_idx" ON "idempotency_keys"("form_id");

-- CreateIndex
CREATE INDEX "audit_entries_subject_id_id_idx" ON "audit_entries"("subject_id", "id");

-- CreateIndex
CREATE INDEX "audit_entries_correlation_id_idx" ON "audit_entries"("correlation_id");

-- AddForeignKey
ALTER TABLE "memberships" ADD CONSTRAINT "memberships_user_id_fkey" FOREIGN KEY ("user_id") REFERENCES "users"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "memberships" ADD CONSTRAINT "memberships_listing_id_listing_created_at_fkey" FOREIGN KEY ("listing_id", "listing_created_at") REFERENCES "listings"("id", "created_at") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "api_keys" ADD CONSTRAINT "api_keys_user_id_fkey" FOREIGN KEY ("user_id") REFERENCES "users"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "forms" ADD CONSTRAINT "forms_listing_id_fkey" FOREIGN KEY ("listing_id") REFERENCES "listings"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "creations" ADD CONSTRAINT "creations_form_id_fkey" FOREIGN KEY ("form_id") REFERENCES "forms"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "creations" ADD CONSTRAINT "creations_holder_id_fkey" FOREIGN KEY ("holder_id") REFERENCES "users"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "idempotency_keys" ADD CONSTRAINT "idempotency_keys_holder_id_fkey" FOREIGN KEY ("holder_id") REFERENCES "users"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "idempotency_keys" ADD CONSTRAINT "idempotency_keys_form_id_fkey" FOREIGN KEY ("form_id") REFERENCES "creations"("form_id") ON DELETE CASCADE ON UPDATE CASCADE;
