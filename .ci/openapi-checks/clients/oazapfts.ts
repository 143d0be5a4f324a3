import { createForm, defaults, type FormV1, getForm, listForms, updateForm } from "../dist/oazapfts.js";
import { headers, runScenario } from "./scenario.js";

defaults.headers = headers;

// @ts-expect-error a form has no address
export type Unknown = FormV1["guestEmail"];

await runScenario("oazapfts", {
  create: (body, idempotencyKey) => createForm(body, { idempotencyKey }),
  list: (listingId, limit) => listForms({ listingId, limit }),
  get: (id) => getForm(id),
  update: (id, body) => updateForm(id, body),
});
