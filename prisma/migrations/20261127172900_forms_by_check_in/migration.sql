-- Locks: forms SHARE UPDATE EXCLUSIVE and reads it
CREATE INDEX CONCURRENTLY "forms_check_in_date_idx" ON "forms"("check_in_date");
