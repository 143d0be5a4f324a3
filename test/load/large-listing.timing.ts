import { test } from "vitest";
import { expectFast } from "../support/tenants.js";
import { FORMS, makeLargeListing } from "./large-listing.js";

/** More than in other floods: Postgres works on the forms at the same time. */
const MAX_P99_MS = 500;

const { setMember, removeMember, importRole } = await makeLargeListing();

// A reader has no forms in scope.
test.each([
  ["the command `members set`", "READER", setMember],
  ["the command `members remove`", "WRITER", removeMember],
  ["the import of a membership", "READER", () => importRole("WRITER")],
  ["the import of its end", "WRITER", () => importRole("READER")],
])(
  `%s of a listing of ${FORMS} forms delays no other key holder: their requests take less than 500 ms (p99)`,
  async (_, roleBefore, change) => {
    await expectFast(MAX_P99_MS, async () => {
      await importRole(roleBefore);
      return (await change()).seen;
    });
  },
);
