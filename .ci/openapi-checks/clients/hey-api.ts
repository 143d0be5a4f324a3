import { client } from "../dist/hey-api/client.gen.js";
import { createForm, type FormV1, getForm, listForms, updateForm } from "../dist/hey-api/index.js";
import { answerOf, headers, runScenario } from "./scenario.js";

client.setConfig({ headers });

// @ts-expect-error a form has no address
export type Unknown = FormV1["guestEmail"];

await runScenario("hey-api", {
  create: async (body, key) => answerOf(await createForm({ body, headers: { "Idempotency-Key": key } })),
  list: async (listingId, limit) => answerOf(await listForms({ query: { listingId, limit } })),
  get: async (id) => answerOf(await getForm({ path: { id } })),
  update: async (id, body) => answerOf(await updateForm({ path: { id }, body })),
});
