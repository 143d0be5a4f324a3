import { CallFailed, core, toFailure } from "../core.js";
import type { Values } from "./form.js";

/** Returns the id of what `find` finds, or fails at the form's field. */
async function idOf(field: string, issue: string, find: () => Promise<{ id: string }>): Promise<string> {
  try {
    return (await find()).id;
  } catch (error) {
    const failure = toFailure(error);
    if (![400, 404].includes(failure.status)) throw error;
    throw new CallFailed({ ...failure, fields: [{ field, issue }] });
  }
}

/** Id of the user whose email address, external id or id is in the form's field. */
export const findUserId = (values: Values, field: string) =>
  idOf(field, "no user has this email address, external id or id", () =>
    core.users.find.query({ user: `${values[field] ?? ""}` }),
  );

/** Id of the listing whose external id or id is in the form's field. */
export const findListingId = (values: Values, field: string) =>
  idOf(field, "no listing has this external id or id", () =>
    core.listings.find.query({ listing: `${values[field] ?? ""}` }),
  );
