import type { Call } from "../access/context.js";
import { operatorProcedure, router } from "../trpc.js";
import { checkFile } from "./check.js";
import { exportRows } from "./export.js";
import { writeMemberships } from "./memberships.js";
import * as schema from "./schema.js";
import { LISTINGS, USERS, upsert } from "./upsert.js";

export const onboardingRouter = router({
  /** Checks a whole file, also against the database, and counts what an import would do. Writes nothing. Operator. */
  check: operatorProcedure.input(schema.checkInput).output(schema.checked).query(checkFile),
  /**
   * Creates and updates rows that `check` accepts, all of one type, in one transaction unless listings have many forms. Writing them again changes nothing. Write
   * users and listings before memberships. Returns the ids of users and listings. Operator. Errors: VALIDATION_ERROR.
   */
  write: operatorProcedure.input(schema.writeInput).output(schema.written).mutation(writeRows),
  /**
   * A page of all users, listings or memberships as rows that an import accepts, in the order of their ids. To export
   * everything while others write, read memberships before users and listings: then the file has all that it refers to.
   * Operator. Errors: VALIDATION_ERROR.
   */
  export: operatorProcedure.input(schema.exportInput).output(schema.exportPage).query(exportRows),
});

async function writeRows({ ctx, input: { rows } }: Call<typeof schema.writeInput>): Promise<schema.Written> {
  switch (rows[0]?.type) {
    case "user":
      return upsert(ctx, USERS, schema.rowsOf(rows, "user"));
    case "listing":
      return upsert(ctx, LISTINGS, schema.rowsOf(rows, "listing"));
    default:
      return { ...(await writeMemberships(ctx, schema.rowsOf(rows, "membership"))), ids: [] };
  }
}
