import createClient from "openapi-fetch";
import type { components, paths } from "../dist/openapi-typescript.js";
import { answerOf, headers, runScenario } from "./scenario.js";

// This generator makes types only, so the client needs the URL.
const client = createClient<paths>({ baseUrl: process.env.GUEST_FORMS_BASE_URL ?? "", headers });

// @ts-expect-error a form has no address
export type Unknown = components["schemas"]["FormV1"]["guestEmail"];
// @ts-expect-error the document has no such path
export const misspelled = () => client.GET("/v1/form", {});

await runScenario("openapi-typescript", {
  create: async (body, key) =>
    answerOf(await client.POST("/v1/forms", { params: { header: { "Idempotency-Key": key } }, body })),
  list: async (listingId, limit) =>
    answerOf(await client.GET("/v1/forms", { params: { query: { listingId, limit } } })),
  get: async (id) => answerOf(await client.GET("/v1/forms/{id}", { params: { path: { id } } })),
  update: async (id, body) => answerOf(await client.PUT("/v1/forms/{id}", { params: { path: { id } }, body })),
});
