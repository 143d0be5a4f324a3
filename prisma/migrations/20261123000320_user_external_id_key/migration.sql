-- Separate from the column, whose lock also stops reads. Not CONCURRENTLY: a build that is killed leaves nothing behind, and
-- meanwhile only writes to users wait.
-- CreateIndex
CREATE UNIQUE INDEX "users_external_id_key" ON "users"("external_id");
