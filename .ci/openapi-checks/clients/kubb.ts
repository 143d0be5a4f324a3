import { setConfig } from "@kubb/plugin-client/clients/fetch";
import { createForm, type FormV1, getForm, listForms, updateForm } from "../dist/kubb/index.js";
import { headers, runScenario } from "./scenario.js";

// The client of this generator sends JSON without a content type.
setConfig({ headers: { ...headers, "Content-Type": "application/json" } });

// @ts-expect-error a form has no address
export type Unknown = FormV1["guestEmail"];

await runScenario("kubb", {
  create: (body, key) => createForm(body, { "Idempotency-Key": key }),
  list: (listingId, limit) => listForms({ listingId, limit }),
  get: (id) => getForm(id),
  update: (id, body) => updateForm(id, body),
});
