import { operatorProcedure, router } from "../trpc.js";
import { checkFile } from "./check.js";
import { exportRows } from "./export.js";
import { checked, checkInput, counts, exportInput, exportPage, writeInput } from "./schema.js";
import { writeRows } from "./write.js";

export const onboardingRouter = router({
  /** Checks the rows of a whole file and counts what an import would do. Writes nothing. Operator. */
  check: operatorProcedure
    .input(checkInput)
    .output(checked)
    .query(({ ctx, input }) => checkFile(ctx, input.lines)),
  /**
   * Creates and updates rows that `check` accepts, all of one type, in one transaction unless listings have many forms. Write
   * users and listings before memberships. Operator. Errors: VALIDATION_ERROR.
   */
  write: operatorProcedure
    .input(writeInput)
    .output(counts)
    .mutation(({ ctx, input }) => writeRows(ctx, input.rows)),
  /** A page of all users, listings or memberships as rows of a file. Operator. Errors: VALIDATION_ERROR. */
  export: operatorProcedure
    .input(exportInput)
    .output(exportPage)
    .query(({ ctx, input }) => exportRows(ctx, input)),
});
