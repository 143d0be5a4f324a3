import type { Prisma } from "../../prisma/client/client.js";
import { instantText } from "../values.js";
import { FORM_STATUSES, type FormStatus, type FormV1 } from "./schema.js";

/** The columns a projection needs: never the guest's e-mail. */
export const FORM_SELECT = {
  id: true,
  listingId: true,
  publicId: true,
  status: true,
  checkInDate: true,
  checkOutDate: true,
  numberOfGuests: true,
  numberOfVehicles: true,
  numberOfPets: true,
  createdAt: true,
} satisfies Prisma.FormSelect;

type PrismaFormRow = Prisma.FormGetPayload<{ select: typeof FORM_SELECT }>;

/** The same as a stored answer has it: instants as the interface writes them. */
export type FormRow = {
  [Column in keyof PrismaFormRow]: Date extends PrismaFormRow[Column]
    ? Exclude<PrismaFormRow[Column], Date> | string
    : PrismaFormRow[Column];
};

const isPublic = (status: string): status is FormStatus =>
  (FORM_STATUSES as readonly string[]).includes(status);

export const projectStatus = (status: string): FormStatus => (isPublic(status) ? status : "UNKNOWN");

/** The public form of a row, or of a stored answer: these fields, in this order, and nothing else. */
export const projectForm = (row: FormRow | PrismaFormRow): FormV1 => ({
  id: row.id,
  listingId: row.listingId,
  publicId: row.publicId,
  status: projectStatus(row.status),
  checkInDate: instantText(row.checkInDate),
  checkOutDate: instantText(row.checkOutDate),
  numberOfGuests: row.numberOfGuests,
  numberOfVehicles: row.numberOfVehicles,
  numberOfPets: row.numberOfPets,
  createdAt: instantText(row.createdAt),
});
