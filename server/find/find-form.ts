import type { Call, OperatorContext } from "../access/context.js";
import { invalid, notFound } from "../errors.js";
import { publicIdsIn } from "../values.js";
import { idRangeIn } from "./read-text.js";
import type { findFormInput } from "./schema.js";

// Each by an index of its own. Two are enough to know that the text is ambiguous. Whole ids come first: anyone with a key can make
// a form whose external id is the id of another.
const FIND = `
  SELECT id FROM (
    (SELECT f.id, CASE WHEN $1::uuid = $2::uuid THEN 1 ELSE 3 END AS rank
      FROM forms f WHERE f.id BETWEEN $1::uuid AND $2::uuid ORDER BY f.id LIMIT 2)
    UNION (SELECT f.id, 2 FROM forms f WHERE f.public_id = ANY($3::text[]) LIMIT 2)
    UNION (SELECT f.id, 3 FROM forms f WHERE f.external_id = $4::text ORDER BY f.created_at DESC, f.id DESC LIMIT 2)
  ) AS found
  ORDER BY rank FETCH FIRST ROW WITH TIES`;

/** The form that has this id, else the one with this public id, else the only one with this external id or beginning of its id. */
export async function findForm({ ctx, input: { form } }: Call<typeof findFormInput, OperatorContext>) {
  const [lowest, highest] = idRangeIn(form) ?? [null, null];
  const values = [lowest, highest, publicIdsIn(form), form];
  const [found, other] = await ctx.services.db.query<{ id: string }>("find-form", FIND, values);
  if (!found) throw notFound("form");
  if (other) throw invalid([{ field: "form", issue: `two forms or more have this name: ${found.id}, ${other.id}` }]);
  return found;
}
