import type { Prisma } from "../../prisma/client/client.js";
import { absentFields, type SqlRow, selectList } from "../resource.js";
import { type FormV1, formV1 } from "./schema.js";
import { projectStatus } from "./status.js";

/** The columns of `forms f` that a projection needs: never the guest's e-mail. */
export const FORM_COLUMNS = selectList(formV1, "f");

/** A form as the database stores it; its status may be one that the interface does not know. */
export type FormRow = SqlRow<Prisma.FormGetPayload<{ select: { [Field in keyof FormV1]: true } }>>;

/** The answer to a create, as it is kept for its repeats: what never changes is kept with the form. */
export type StoredAnswer = Omit<FormRow, "createdAt">;

const ABSENT = absentFields(formV1);

/** The public form of a row, or of an answer that was stored before some of the fields existed: those are null. */
export const projectForm = (row: FormRow): FormV1 => ({
  ...ABSENT,
  ...row,
  status: projectStatus(row.status),
});
