// A client made by another project's generator, used as its users would: a create, a list and an error.
import createClient from "openapi-fetch";
import type { components, paths } from "./dist/schema.js";

const {
  GUEST_FORMS_BASE_URL: baseUrl = "",
  GUEST_FORMS_API_KEY: key = "",
  LISTING_ID: listingId = "",
} = process.env;
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${key}` } });

const body: components["schemas"]["FormInput"] = {
  listingId,
  checkInDate: "2027-07-01T15:00:00+02:00",
  checkOutDate: "2027-07-08T11:00:00+02:00",
  numberOfGuests: 4,
};
const created = await client.POST("/v1/forms", { params: { header: { "Idempotency-Key": "judged" } }, body });
if (!created.data) throw new Error(`not created: ${created.error?.code}`);
const form: components["schemas"]["FormV1"] = created.data;
const guests: number | null | undefined = form.numberOfGuests;

const listed = await client.GET("/v1/forms", { params: { query: { listingId, limit: 10 } } });
if (!listed.data) throw new Error(`not listed: ${listed.error.code}`);

const path = { id: "00000000-0000-4000-8000-000000000000" };
const missing = await client.GET("/v1/forms/{id}", { params: { path } });
const code: string | undefined = missing.error?.code;

// @ts-expect-error the path is not one of the document's
await client.GET("/v1/form", {}).catch(() => {});

console.log(
  JSON.stringify({
    status: created.response.status,
    guests,
    listed: listed.data.items.some(({ id }) => id === form.id),
    missing: [missing.response.status, code],
  }),
);
