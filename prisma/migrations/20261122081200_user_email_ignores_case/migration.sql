-- Upper and lower case of an address are one. Addresses are ASCII, and the "C" collation lowers only that, whatever the
-- locale of the database. The index that tells case apart stays: dropping it would lock out requests while it waits.
-- Locks: users ACCESS SHARE and reads it
DO $$
DECLARE
    "ids" TEXT;
BEGIN
    SELECT string_agg("same", '; ') INTO "ids" FROM (
        SELECT string_agg(id::text, ' and ' ORDER BY created_at, id) AS "same"
        FROM users GROUP BY lower(email COLLATE "C") HAVING count(*) > 1 LIMIT 5
    ) AS "groups";
    IF "ids" IS NOT NULL THEN
        RAISE EXCEPTION 'users have the same e-mail address in upper and lower case: %. Give all but one of them another address (UPDATE users SET email = ''...'' WHERE id = ''...''), then migrate again', "ids";
    END IF;
END $$;

-- Locks: users SHARE and reads it
CREATE UNIQUE INDEX "users_email_lower_key" ON "users" (lower("email" COLLATE "C"));
