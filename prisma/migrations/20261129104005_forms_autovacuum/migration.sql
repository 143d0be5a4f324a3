-- Locks: forms SHARE UPDATE EXCLUSIVE

-- Filtered lists read only indexes, which needs pages that VACUUM has marked. The default waits for a fifth of the table.
ALTER TABLE "forms" SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02);
