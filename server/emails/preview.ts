import type { Call } from "../access/context.js";
import { invalid, notFound } from "../errors.js";
import { INVITATION_FACTS, type InvitationFacts } from "./facts.js";
import type * as schema from "./schema.js";

const READ_FACTS = `
  SELECT ${INVITATION_FACTS} FROM forms f JOIN listings l ON l.id = f.listing_id WHERE f.id = $1::uuid`;

/** Loads the templates for each call, so that it shows what was changed. */
export async function previewInvitation({
  ctx: { services },
  input: { formId, language },
}: Call<typeof schema.previewInput>): Promise<schema.Invitation> {
  const [facts] = await services.db.query<InvitationFacts>("invitation-to-preview", READ_FACTS, [formId]);
  if (!facts) throw notFound("form");
  const { loadTemplates } = await import("./templates.js");
  const templates = await loadTemplates(services.settings);
  const issue = language && templates.issueWith(language);
  if (issue) throw invalid([{ field: "language", issue }]);
  return templates.render(facts, language);
}
