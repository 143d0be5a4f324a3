import { z } from "zod";
import { exactText } from "../texts.js";
import { instantOut } from "../values.js";

const name = exactText(2_000);

/** Whatever an operator has: an id, its beginning, a link, a key, an address, or a part of a name. */
export const findInput = z.strictObject({ text: name });

export const findFormInput = z.strictObject({ form: name });

export const foundForm = z.object({ id: z.guid() });

const KINDS = ["form", "listing", "user", "key", "endpoint", "request"] as const;

const hit = z.object({
  kind: z.enum(KINDS),
  /** Of a request: its correlation id. */
  id: z.guid(),
  /** Title of the listing, also of a form; name or address of the user; prefix of the key; URL of the endpoint. */
  name: z.string(),
  /** Status of the form, city of the listing, address of the user, label of the key. */
  about: z.string().nullable(),
  /** Check-in of the form. */
  checkInDate: instantOut.nullable(),
  /** Holder of the key. */
  userId: z.guid().nullable(),
});

export type Hit = z.infer<typeof hit>;

/**
 * Exact matches come first. `more`: the kinds of which there are more matches than these. `unreadable`: guests' addresses that no
 * secret can decrypt; null if the text is no address, so that none was looked up.
 */
export const found = z.object({ hits: z.array(hit), more: z.array(z.enum(KINDS)), unreadable: z.int().nullable() });

export type Found = z.infer<typeof found>;
