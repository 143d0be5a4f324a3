import { createForm, type FormV1, getForm, listForms, updateForm } from "../dist/orval.js";
import { headers, runScenario } from "./scenario.js";

// @ts-expect-error a form has no address
export type Unknown = FormV1["guestEmail"];

await runScenario("orval", {
  create: (body, key) => createForm(body, { headers: { ...headers, "Idempotency-Key": key } }),
  list: (listingId, limit) => listForms({ listingId, limit }, { headers }),
  get: (id) => getForm(id, { headers }),
  update: (id, body) => updateForm(id, body, { headers }),
});
