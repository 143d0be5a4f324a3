import { readdirSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { spawnNode } from "../support/processes.js";
import { makeTempFolder } from "../support/run-tool.js";
import { bundleWithSdk, compileWithSdk } from "../support/sdk-programs.js";
import { useGateway } from "./setup.js";

// Runs the samples of the SDK's README, and compiles these and the examples that editors show. The quick start is run by
// test/release/sdk-examples.release.ts, from the tarball.
const SDK = join(packageRoot(), "sdk/src");

/** What each sample needs before it, and what must be true after it, by heading and number. */
const SAMPLES: Record<string, { before?: string; after?: string }> = {
  "Operations 1": {
    before: `const form = await client.forms.create(input);
      const labels = { SENT: "sent", UNKNOWN: "?" } as Record<KnownFormStatus, string>;`,
    after: 'assert.equal(label, "sent");',
  },
  "Operations 2": {
    before: "const listing = await client.listings.retrieve(listingId);",
    after: "assert.match(checkInDate, /^2027-07-01T.*Z$/);",
  },
  "Lists 1": {
    before: "for (const numberOfGuests of [1, 2]) await client.forms.create({ ...input, numberOfGuests });",
    after: `const ids = (await client.forms.list({ listingId }).toArray()).map(({ id }) => id);
      assert.deepEqual(printed, [...ids, oldest.length]);`,
  },
  "Errors 1": {},
  "Retries and timeouts 1": {
    before: "const inputs = [3, 4].map((numberOfGuests) => ({ ...input, numberOfGuests }));",
    after: "assert.deepEqual(forms.map((form) => form.numberOfGuests), [3, 4]);",
  },
  "Repeat, rebook or change 1": {
    before: "const booking = { id: 7 };",
    after: `const { status, numberOfGuests, externalId } = await client.forms.retrieve(id);
      assert.deepEqual([status, numberOfGuests, externalId], ["CANCELLED", 3, "booking-7"]);
      assert.notEqual((await client.forms.create({ ...input, externalId: "booking-8" })).id, id);`,
  },
  "Multiple keys 1": { before: "const host = { apiKey: process.env.READ_ONLY_KEY! };" },
  "Multiple keys 2": {
    before: "const secrets = { read: async (_: string) => process.env.GUEST_FORMS_API_KEY! };",
    after: "await client.listings.list();",
  },
  "Test your program 1": {
    after: `assert.equal(form.status, "SENT");
      assert.deepEqual(service.requests.map(({ path }) => path), ["/v1/forms", "/v1/forms", "/v1/forms"]);
      await assert.rejects(client.forms.retrieve(form.id), { status: 404 });`,
  },
  "Webhooks 1": {
    before: `const secret = "whsec_c2VjcmV0IG9mIHRoZSBzYW1wbGU=";
      const processed = new Set<string>();
      const database = {
        has: async (id: string) => processed.has(id),
        save: async (id: string, form?: FormV1, _sentAt?: string) => { processed.add(id); if (form) printed.push(form.status); },
      };`,
    after: `const form = { ...(await client.forms.create(input)), status: "COMPLETED" };
      const data = { form, from: "SENT", to: "COMPLETED" };
      const event: WebhookEvent = { type: "form.status_changed", timestamp: form.createdAt, sentAt: form.createdAt, data };
      const send = async (signer: string, id: string) =>
        (await receive(new Request("http://a.test", { method: "POST", ...(await signWebhook(event, signer, { id })) }))).status;
      assert.deepEqual([await send(secret, "1"), await send(secret, "1"), await send(secret, "2")], [204, 204, 204]);
      assert.equal(await send("whsec_b3RoZXI=", "3"), 400);
      assert.deepEqual(printed, ["COMPLETED", "COMPLETED"]);`,
  },
  "Webhooks 2": {
    before: `const secret = "whsec_c2VjcmV0IG9mIHRoZSBzYW1wbGU=";
      const form = await client.forms.create(input);
      const receive = async (request: Request) => {
        const { type } = await unwrapWebhook(await request.arrayBuffer(), request.headers, secret);
        return Response.json({ type });
      };`,
    after: 'assert.deepEqual(await response.json(), { type: "form.created" });',
  },
  "Response metadata 1": {
    after: `assert.deepEqual([form._replayed, replayed, response.status], [false, false, 201]);
      const again = await client.forms.create(input).withResponse();
      assert.deepEqual([again.data._replayed, again.replayed], [true, true]);`,
  },
  "Other requests 1": {
    before: "await client.forms.create(input);",
    after: "assert.deepEqual(page.items, (await client.forms.list({ limit: 5 })).items);",
  },
};

const context = await useGateway();
const readme = readFileSync(join(SDK, "../README.md"), "utf8");
const samples = readme.split(/^##+ /m).flatMap((section) => {
  const [heading = ""] = section.split("\n");
  const blocks = [...section.matchAll(/^```ts\n(.*?)^```$/gms)];
  return blocks.map(([, source = ""], index) => ({ name: `${heading} ${index + 1}`, source }));
});
const testedSamples = samples.filter(({ name }) => name !== "Quick start 1");
const examples = readdirSync(SDK).flatMap((file) =>
  [...readFileSync(join(SDK, file), "utf8").matchAll(/^ *\* ```ts\n(.*?)^ *\* ```$/gms)].map(([, lines = ""]) =>
    lines.replaceAll(/^ *\* ?/gm, ""),
  ),
);

const functions = testedSamples.map(({ name, source }) => {
  const { before = "", after = "" } = SAMPLES[name] ?? {};
  return `${JSON.stringify(name)}: async ({ client, listingId, input, printed, console }) => {
    ${before}
    { ${source.replace(/^import .*$/gm, "")} ${after} }
  }`;
});

const PROGRAM = `import assert from "node:assert/strict";
  import { inspect } from "node:util";
  import { GuestForms, ValidationError, instantIn, isKnownStatus, type FormInput, type FormV1, type KnownFormStatus } from "@guest-forms/sdk";
  import { FakeService } from "@guest-forms/sdk/testing";
  import { signWebhook, unwrapWebhook, WebhookVerificationError, type WebhookEvent } from "@guest-forms/sdk/webhooks";
  interface Context {
    client: GuestForms;
    listingId: string;
    input: FormInput;
    printed: unknown[];
    console: { log(...values: unknown[]): void };
  }
  const samples: Record<string, (context: Context) => Promise<void>> = { ${functions.join(",\n")} };
  const outcomes: Record<string, string> = {};
  for (const [index, [name, run]] of Object.entries(samples).entries()) {
    const listingId = process.env.LISTING_ID ?? "";
    const checkInDate = new Date(Date.UTC(2040, 0, 3 * index + 1, 14));
    const input = { listingId, checkInDate, checkOutDate: new Date(Date.UTC(2040, 0, 3 * index + 2)), numberOfGuests: 2 };
    const printed: unknown[] = [];
    const console = { log: (...values: unknown[]) => void printed.push(...values) };
    outcomes[name] = await run({ client: new GuestForms(), listingId, input, printed, console })
      .then(() => "passed", (error) => inspect(error));
  }
  process.stdout.write(JSON.stringify(outcomes));`;

const EXAMPLES = `import {
    GuestForms, instantIn, isKnownStatus, type AbortSignalLike, type FetchResponse, type FormInput, type FormV1,
  } from "@guest-forms/sdk";
  import { FakeService } from "@guest-forms/sdk/testing";
  import { signWebhook, unwrapWebhook, type WebhookEvent } from "@guest-forms/sdk/webhooks";
  declare const client: GuestForms, input: FormInput, form: FormV1, id: string, listingId: string, secret: string;
  declare const booking: { id: number }, host: { apiKey: string }, response: FetchResponse;
  declare const signal: AbortSignalLike, listener: () => void;
  declare let mark: string | undefined;
  ${examples.map((body, n) => `async function example${n}() { ${body} }`).join("\n")}`;

const folder = await makeTempFolder("sdk-documentation");
const entry = join(folder, "samples.ts");
await writeFile(entry, PROGRAM);
const env = {
  GUEST_FORMS_API_KEY: context.readWrite,
  GUEST_FORMS_BASE_URL: context.proxy.url,
  READ_ONLY_KEY: context.readOnly,
  LISTING_ID: context.listings[0]?.id,
};
const ran = await spawnNode([await bundleWithSdk(entry)], { env }).done;

test("every README sample has a test", () => {
  expect(testedSamples.map(({ name }) => name)).toEqual(Object.keys(SAMPLES));
});

test.each(testedSamples)("README sample $name runs and its claims hold", ({ name }) => {
  expect(ran.stderr).toBe("");
  expect(JSON.parse(ran.stdout)[name]).toBe("passed");
});

test("every sample of the README and every example of the source compiles in strict mode", async () => {
  expect(examples.length).toBeGreaterThan(20);
  await writeFile(join(folder, "examples.ts"), EXAMPLES);
  expect(await compileWithSdk(folder, ["samples.ts", "examples.ts"])).toBe("");
});

test("every method has a description", () => {
  const lines = ["client", "forms", "listings", "page", "promise", "testing"].flatMap((file) =>
    readFileSync(join(SDK, `${file}.ts`), "utf8").split("\n"),
  );
  const methods = lines.flatMap((line, index) => {
    const [, name] = /^ {2}(?:async )?(?!constructor|catch|finally|then)([a-z]\w+)(?:<.*>)?\(.*[({,]$/.exec(line) ?? [];
    return name ? [{ name, isDescribed: lines[index - 1] === "   */" || /\*\/$/.test(lines[index - 1] ?? "") }] : [];
  });
  expect(methods.map(({ name }) => name)).toEqual(expect.arrayContaining(["withOptions", "create", "nextPage"]));
  expect(methods.filter(({ isDescribed }) => !isDescribed)).toEqual([]);
});
