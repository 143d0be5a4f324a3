import { z } from "zod";
import { cursor, limit, nextCursor } from "../resources/paging.js";
import { reference, search, text } from "../texts.js";
import { emailAddress, instantOut, resourceId } from "../values.js";

export const createUserInput = z.strictObject({ email: emailAddress, name: text(200).nullish() });

/** Changes to a user. Absent fields are unchanged; null unsets. */
export const updateUserInput = z.strictObject({ id: resourceId, ...createUserInput.partial().shape });

export const user = z.object({
  id: z.guid(),
  email: z.string(),
  name: z.string().nullable(),
  externalId: z.string().nullable(),
  createdAt: instantOut,
});

export type User = z.infer<typeof user>;

export const listUsersInput = z.strictObject({ limit, cursor, search });

export const userPage = z.object({ items: z.array(user), nextCursor });

export const getUserInput = z.strictObject({ id: resourceId });

export const findUserInput = z.strictObject({ user: reference });
