import type { Prisma } from "../../prisma/client/client.js";
import { type SqlRow, selectList, selectOf } from "../resource.js";
import { instantText } from "../values.js";
import { type Listing, listing } from "./schema.js";

/** Select list of the public listing over `listings l`. */
export const LISTING_COLUMNS = selectList(listing, "l");

/** The same for Prisma's client. */
export const LISTING_SELECT = selectOf(listing);

type PrismaRow = Prisma.ListingGetPayload<{ select: typeof LISTING_SELECT }>;

export type ListingRow = SqlRow<PrismaRow>;

export const projectListing = (row: ListingRow | PrismaRow): Listing => ({
  ...row,
  createdAt: instantText(row.createdAt),
});
