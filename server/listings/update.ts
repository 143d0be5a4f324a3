import type { z } from "zod";
import { audit } from "../audit.js";
import type { Context } from "../context.js";
import { notFound } from "../errors.js";
import { omitUndefined } from "../values.js";
import { LISTING_SELECT, projectListing } from "./projection.js";
import type { Listing, updateInput } from "./schema.js";

type Change = Omit<z.output<typeof updateInput>, "id">;

/**
 * Changes a listing. Its forms are not changed, even if they now break its rules. RESOURCE_NOT_FOUND if there is no such
 * listing.
 */
export function updateListing(context: Context, id: string, change: Change): Promise<Listing> {
  const data = omitUndefined(change);
  return context.services.db.transaction(async (tx) => {
    const [row] = await tx.listing.updateManyAndReturn({
      where: { id },
      data,
      select: LISTING_SELECT,
    });
    if (!row) throw notFound("listing");
    const fields = Object.keys(data);
    const details = { fields, ...(data.active !== undefined && { active: data.active }) };
    if (fields.length > 0) await audit(tx, context, "listing.updated", row.id, details);
    return projectListing(row);
  });
}
