-- As for users: creates of forms lock listings, but do not write them, so they do not wait.
-- CreateIndex
CREATE UNIQUE INDEX "listings_external_id_key" ON "listings"("external_id");
