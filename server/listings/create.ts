import { nanoid } from "nanoid";
import type { z } from "zod";
import { audit } from "../audit.js";
import type { Context } from "../context.js";
import { assertUserExists } from "../people/store.js";
import { LISTING_SELECT, projectListing } from "./projection.js";
import type { createInput, Listing } from "./schema.js";

/** Creates a listing and its owner's membership. */
export function createListing(context: Context, input: z.output<typeof createInput>): Promise<Listing> {
  const { ownerId, ...fields } = input;
  return context.services.db.transaction(async (tx) => {
    await assertUserExists(tx, ownerId, "ownerId");
    const row = await tx.listing.create({
      data: {
        publicId: nanoid(),
        title: fields.title,
        address: fields.address,
        city: fields.city,
        country: fields.country,
        zipCode: fields.zipCode,
        district: fields.district ?? null,
        timezone: fields.timezone,
        active: fields.active,
        maxPeopleInListing: fields.maxPeopleInListing ?? null,
        maxVehicles: fields.maxVehicles ?? null,
        allowPets: fields.allowPets ?? null,
      },
      select: LISTING_SELECT,
    });
    await tx.membership.create({
      data: { userId: ownerId, listingId: row.id, listingCreatedAt: row.createdAt, role: "OWNER" },
    });
    await audit(tx, context, "listing.created", row.id, { ownerId });
    return projectListing(row);
  });
}
