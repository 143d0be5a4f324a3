import type { Json } from "./document.js";

/** The ids of the examples, in samples and schemas alike. */
const FORM = "8a0e2f3c-6a58-4d5c-9d3e-2f0a6f1c7b11";
const LISTING = "3f6b1c1e-2f53-4c0e-8f6a-51b6a3f0d7aa";

const stay = (checkOutDate: string, numberOfGuests: number) => ({
  listingId: LISTING,
  checkInDate: "2027-07-01T15:00:00+02:00",
  checkOutDate,
  numberOfGuests,
});
const CREATED = { ...stay("2027-07-08T11:00:00+02:00", 4), guestEmail: "guest@example.com" };
const UPDATED = stay("2027-07-09T11:00:00+02:00", 3);

function curl(path: string, options: { method?: string; headers?: string[]; body?: object } = {}): string {
  const { method, headers = [], body } = options;
  const lines = [`curl -sS ${method ? `-X ${method} ` : ""}"$GUEST_FORMS_BASE_URL${path}"`];
  lines.push('-H "Authorization: Bearer $GUEST_FORMS_API_KEY"', ...headers.map((header) => `-H "${header}"`));
  if (body) {
    lines.push('-H "Content-Type: application/json"');
    lines.push(`-d '${JSON.stringify(body, null, 2).replaceAll("\n", "\n  ")}'`);
  }
  return lines.join(" \\\n  ");
}

const typescript = (...lines: string[]) =>
  [
    'import { GuestForms } from "@guest-forms/sdk";',
    "",
    "const apiKey = process.env.GUEST_FORMS_API_KEY;",
    "const baseUrl = process.env.GUEST_FORMS_BASE_URL;",
    "const client = new GuestForms({ apiKey, baseUrl });",
    ...lines,
  ].join("\n");

const argument = (value: object) =>
  JSON.stringify(value, null, 2)
    .replace(/^( +)"(\w+)":/gm, "$1$2:")
    .replace(/(?<=[^,{])\n(?=\s*\})/g, ",\n");

const SAMPLES: Record<string, { curl: string; typescript: string }> = {
  "forms.create": {
    curl: curl("/v1/forms", { headers: ["Idempotency-Key: booking-4711"], body: CREATED }),
    typescript: typescript(
      `const form = await client.forms.create(${argument(CREATED)}, { idempotencyKey: "booking-4711" });`,
      "console.log(form.id, form.status);",
    ),
  },
  "forms.update": {
    curl: curl(`/v1/forms/${FORM}`, { method: "PUT", body: UPDATED }),
    typescript: typescript(
      `const form = await client.forms.update("${FORM}", ${argument(UPDATED)});`,
      "console.log(form.checkOutDate);",
    ),
  },
  "forms.list": {
    curl: curl(`/v1/forms?listingId=${LISTING}&limit=20`),
    typescript: typescript(
      `for await (const form of client.forms.list({ listingId: "${LISTING}" })) {`,
      "  console.log(form.id, form.checkInDate, form.status);",
      "}",
    ),
  },
  "forms.get": {
    curl: curl(`/v1/forms/${FORM}`),
    typescript: typescript(
      `const form = await client.forms.retrieve("${FORM}");`,
      "console.log(form.status);",
    ),
  },
  "listings.list": {
    curl: curl("/v1/listings?limit=20"),
    typescript: typescript(
      "for await (const listing of client.listings.list()) {",
      "  console.log(listing.id, listing.title);",
      "}",
    ),
  },
  "listings.get": {
    curl: curl(`/v1/listings/${LISTING}`),
    typescript: typescript(
      `const listing = await client.listings.retrieve("${LISTING}");`,
      "console.log(listing.title, listing.timezone);",
    ),
  },
};

/** `x-codeSamples` of an operation; GUEST_FORMS_BASE_URL and GUEST_FORMS_API_KEY come from the environment. */
export function codeSamples(operation: string): Json[] {
  const samples = SAMPLES[operation];
  if (!samples) throw new Error(`${operation} has no code samples`);
  return [
    { lang: "bash", label: "curl", source: samples.curl },
    { lang: "typescript", label: "TypeScript SDK", source: samples.typescript },
  ];
}
