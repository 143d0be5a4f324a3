import type { Prisma } from "../../prisma/client/client.js";
import { absentFields, type SqlRow, selectList } from "../resource.js";
import { type FormV1, formV1 } from "./schema.js";
import { FORM_STATUSES, type FormStatus } from "./status.js";

/** The columns of `forms f` that a projection needs: never the guest's e-mail. */
export const FORM_COLUMNS = selectList(formV1, "f");

/** A form as the database stores it; its status may be one that the interface does not know. */
export type FormRow = SqlRow<Prisma.FormGetPayload<{ select: { [Field in keyof FormV1]: true } }>>;

const isPublic = (status: string): status is FormStatus =>
  (FORM_STATUSES as readonly string[]).includes(status);

/** A stored status that the interface does not know is UNKNOWN to it. */
export const projectStatus = (status: string): FormStatus => (isPublic(status) ? status : "UNKNOWN");

/** The public form of a row. */
export const projectForm = (row: FormRow): FormV1 => ({ ...row, status: projectStatus(row.status) });

/** The answer to a create, as it is kept for its repeats; `createdAt` is kept with the form. */
export type StoredAnswer = Partial<FormRow> & Pick<FormRow, "id" | "listingId" | "publicId" | "status">;

const ABSENT = absentFields(formV1);

/** The row of a stored answer. Fields that did not exist when it was stored are null. */
export const restoreForm = (answer: StoredAnswer, createdAt: string): FormRow => ({
  ...ABSENT,
  ...answer,
  createdAt,
});
