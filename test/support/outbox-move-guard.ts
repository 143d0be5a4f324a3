import { MOVES } from "../../server/outbox/states.js";
import { runSql } from "./run-sql.js";

const literal = (value: string | null) => (value === null ? "NULL" : `'${value}'`);

const ALLOWED = MOVES.map(
  ({ table, from, to, statement }) => `(${[table, from, to, statement].map(literal).join(", ")})`,
).join(",\n");

/** SQL of a trigger function that rejects the moves that `moves` selects, unless `server/outbox/states.ts` lists them. */
const guard = (command: string, transition: string, moves: string) => `
  -- The number of rows is not known when the join is planned.
  CREATE FUNCTION test_guard.reject_${command}_move() RETURNS trigger LANGUAGE plpgsql SET enable_nestloop = off AS $$
  DECLARE
    writer text := (SELECT name FROM pg_prepared_statements WHERE statement = current_query() LIMIT 1);
    unlisted record;
  BEGIN
    -- Deeper: a cascade from a form.
    IF writer IS NULL OR pg_trigger_depth() > 1 THEN RETURN NULL; END IF;
    FOR unlisted IN
      SELECT old_state, new_state FROM (${moves}) AS made (old_state, new_state) WHERE old_state IS DISTINCT FROM new_state
      EXCEPT SELECT m.old_state, m.new_state FROM test_guard.moves m WHERE m.outbox = TG_TABLE_NAME AND m.statement = writer
    LOOP
      RAISE EXCEPTION '% may not move % from % to %',
          writer, TG_TABLE_NAME, coalesce(unlisted.old_state, 'nothing'), coalesce(unlisted.new_state, 'nothing')
        USING HINT = 'List the move in server/outbox/states.ts. See test/support/outbox-move-guard.ts.';
    END LOOP;
    RETURN NULL;
  END $$;
  ${["emails", "webhook_deliveries"]
    .map(
      (table) => `
    CREATE TRIGGER reject_${command}_move AFTER ${command} ON ${table} REFERENCING ${transition}
      FOR EACH STATEMENT EXECUTE FUNCTION test_guard.reject_${command}_move();`,
    )
    .join("")}`;

// As in form-write-guard.ts, which creates the schema: the service prepares its statements; tests and the demo's past do not.
const GUARD = `
  CREATE TABLE test_guard.moves AS
    SELECT * FROM (VALUES ${ALLOWED}) AS allowed (outbox, old_state, new_state, statement);
  ${guard("insert", "NEW TABLE AS new_rows", "SELECT NULL, state::text FROM new_rows")}
  ${guard(
    "update",
    "OLD TABLE AS old_rows NEW TABLE AS new_rows",
    "SELECT o.state::text, n.state::text FROM old_rows o JOIN new_rows n USING (id)",
  )}
  ${guard("delete", "OLD TABLE AS old_rows", "SELECT state::text, NULL FROM old_rows")}`;

/** Makes statements of the service fail that move an email or a delivery to a state in a way that is not in `MOVES`. */
export const installOutboxMoveGuard = (url: string) => runSql(url, GUARD);
