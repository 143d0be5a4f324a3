import type { Prisma } from "../../prisma/client/client.js";
import type { Listing } from "./schema.js";

export const LISTING_SELECT = {
  id: true,
  publicId: true,
  title: true,
  address: true,
  city: true,
  country: true,
  zipCode: true,
  district: true,
  timezone: true,
  active: true,
  maxPeopleInListing: true,
  maxVehicles: true,
  allowPets: true,
  createdAt: true,
} satisfies Prisma.ListingSelect;

type PrismaListingRow = Prisma.ListingGetPayload<{ select: typeof LISTING_SELECT }>;

export const projectListing = (row: PrismaListingRow): Listing => ({
  id: row.id,
  publicId: row.publicId,
  title: row.title,
  address: row.address,
  city: row.city,
  country: row.country,
  zipCode: row.zipCode,
  district: row.district,
  timezone: row.timezone,
  active: row.active,
  maxPeopleInListing: row.maxPeopleInListing,
  maxVehicles: row.maxVehicles,
  allowPets: row.allowPets,
  createdAt: row.createdAt.toISOString(),
});
