import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { build } from "esbuild";
import { afterAll, beforeAll, expect, test } from "vitest";
import { useGateway } from "./gateway.js";

// Runs the samples of the SDK's README. The quick start is run by test/release/sdk.release.ts, from the tarball.
const root = fileURLToPath(new URL("../..", import.meta.url));
const SDK = join(root, "sdk", "src", "index.ts");
const TSC = join(root, "node_modules/typescript/bin/tsc");

/** Setup and assertions of each sample, by heading and number. */
const SAMPLES: Record<string, { before?: string; after: string }> = {
  "Operations 1": {
    before: `const form = await client.forms.create(input);
      const labels = { SENT: "sent", UNKNOWN: "?" } as Record<KnownFormStatus, string>;`,
    after: `assert.equal(label, "sent");
      const later: FormV1 = { ...form, status: "ARCHIVED" };
      assert.equal(isKnownStatus(later.status), false);`,
  },
  "Lists 1": {
    before: `const made: string[] = [];
      for (let n = 1; n <= 3; n++) made.push((await client.forms.create({ ...input, numberOfGuests: n })).id);`,
    after: `const all = await client.forms.list().toArray();
      assert.deepEqual(oldest, all.slice(0, 1000));
      assert.deepEqual(oldest.map(({ createdAt }) => createdAt), oldest.map(({ createdAt }) => createdAt).sort());
      const onListing = all.filter((form) => form.listingId === listingId).map(({ id }) => id);
      assert.deepEqual(onListing.slice(-3), made);
      const sizes = [];
      for await (const { items } of client.forms.list({ limit: 100 }).byPage()) sizes.push(items.length);
      assert.deepEqual(printed, [...onListing, ...sizes]);
      assert.ok(sizes.every((size) => size <= 100) && page.items.length <= 20);
      const first = await client.forms.list({ listingId, limit: 2 });
      const { nextCursor: cursor } = first;
      const next = await first.nextPage();
      assert.deepEqual(next.items.map(({ id }) => id), onListing.slice(2, 4));
      assert.ok(cursor);
      const resumed = await client.forms.list({ listingId, cursor });
      assert.deepEqual(resumed.items.map(({ id }) => id), onListing.slice(2));
      assert.equal(resumed.nextCursor, null);`,
  },
  "Errors 1": {
    after: `const error = (await client.forms.create({ ...input, numberOfGuests: 0 }).catch((e) => e)) as ValidationError;
      assert.equal(error.message, "POST /v1/forms: 400 numberOfGuests: must be at least 1");
      assert.deepEqual(error.errors, [{ field: "numberOfGuests", issue: "must be at least 1" }]);
      assert.equal(error.status, 400);
      assert.equal(error.headers["x-correlation-id"], error.correlationId);
      assert.ok(!inspect(error).includes("headers"));
      const names = ["name", "message", "status", "code", "correlationId", "errors"];
      assert.deepEqual(Object.keys(JSON.parse(JSON.stringify(error))), names);`,
  },
  "Retries and timeouts 1": {
    before: "const booking = { id: 7 };",
    after: `const again = client.forms.create(input, { idempotencyKey: "booking-7" }).withResponse();
      assert.equal((await again).replayed, true);`,
  },
  "Multiple keys 1": {
    before: "const host = { apiKey: process.env.READ_ONLY_KEY! };",
    after: `assert.deepEqual((await forHost.forms.list()).items, (await client.forms.list()).items);
      await assert.rejects(forHost.forms.create(input), ForbiddenError);
      const nobody = {} as { apiKey: string };
      assert.throws(() => client.withOptions({ apiKey: nobody.apiKey }), GuestFormsError);
      await assert.rejects(client.forms.list({}, { apiKey: nobody.apiKey }).then(), GuestFormsError);`,
  },
  "Multiple keys 2": {
    before: `let calls = 0;
      const secrets = { read: async (_: string) => (calls++, process.env.GUEST_FORMS_API_KEY!) };`,
    after: `for await (const _ of client.listings.list({ limit: 1 }));
      assert.equal(calls, 3);`,
  },
  "Response metadata 1": {
    after: `assert.match(form._correlationId ?? "", UUID);
      assert.ok(!("_correlationId" in { ...form }) && !JSON.stringify(form).includes("orrelationId"));
      assert.equal(response.status, 201);
      assert.equal(response.headers["x-correlation-id"], form._correlationId);
      assert.equal(replayed, false);
      assert.equal((await client.forms.create(input).withResponse()).replayed, true);
      assert.ok(raw instanceof Response);
      assert.deepEqual(await (await created.asResponse()).json(), form);`,
  },
  "Other requests 1": {
    before: "await client.forms.create(input);",
    after: "assert.deepEqual(page.items, (await client.forms.list({ limit: 5 })).items);",
  },
};

const context = useGateway();
const text = await readFile(join(root, "sdk", "README.md"), "utf8");
const samples = text.split(/^##+ /m).flatMap((section) => {
  const [heading = ""] = section.split("\n");
  const blocks = [...section.matchAll(/^```ts\n(.*?)^```$/gms)];
  return blocks.map(([, source = ""], index) => ({ name: `${heading} ${index + 1}`, source }));
});
const testedSamples = samples.filter(({ name }) => name !== "Quick start 1");

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "guest-forms-readme-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Wraps a sample in a program with its setup and assertions. */
function buildProgram(name: string, source: string, day: number): string {
  const { before = "", after } = SAMPLES[name] ?? { after: "" };
  const body = source.replace(/^import .*$/gm, "");
  return `import assert from "node:assert/strict";
    import { inspect } from "node:util";
    import { ${NAMES}, type FormInput, type FormV1, type KnownFormStatus } from "@guest-forms/sdk";
    const UUID = /^[0-9a-f-]{36}$/;
    const printed: unknown[] = [];
    const console = { log: (...values: unknown[]) => void printed.push(...values) };
    async function run(client: GuestForms, listingId: string, input: FormInput) {
      ${before}
      {
        ${body}
        ${after}
      }
    }
    const listingId = process.env.LISTING_ID ?? "";
    const checkInDate = new Date(Date.UTC(2040, 0, ${day}, 14));
    const checkOutDate = new Date(Date.UTC(2040, 0, ${day + 1}, 10));
    await run(new GuestForms(), listingId, { listingId, checkInDate, checkOutDate, numberOfGuests: 2 });
    process.stdout.write("passed");`;
}
const NAMES = "ForbiddenError, GuestForms, GuestFormsError, ValidationError, isKnownStatus";

test("every README sample has a test", () => {
  expect(testedSamples.map(({ name }) => name)).toEqual(Object.keys(SAMPLES));
});

test.each(testedSamples)("README sample $name runs and its claims hold", async ({ name, source }) => {
  const entry = join(folder, `${name.replaceAll(" ", "-")}.ts`);
  await writeFile(
    entry,
    buildProgram(name, source, 1 + 3 * testedSamples.findIndex((sample) => sample.name === name)),
  );
  const outfile = entry.replace(/ts$/, "mjs");
  await build({
    entryPoints: [entry],
    outfile,
    bundle: true,
    platform: "node",
    format: "esm",
    alias: { "@guest-forms/sdk": SDK },
    logLevel: "silent",
  });
  const env = {
    ...process.env,
    GUEST_FORMS_API_KEY: context.readWrite,
    GUEST_FORMS_BASE_URL: context.url,
    READ_ONLY_KEY: context.readOnly,
    LISTING_ID: context.listings[0]?.id,
  };
  const { stdout } = await promisify(execFile)(process.execPath, [outfile], { env });
  expect(stdout).toBe("passed");
});

test("the README samples compile in strict mode", { timeout: 120_000 }, async () => {
  const files = [];
  for (const [index, { name, source }] of testedSamples.entries()) {
    await writeFile(join(folder, `strict-${index}.ts`), buildProgram(name, source, index));
    files.push(`strict-${index}.ts`);
  }
  const config = {
    compilerOptions: {
      target: "es2022",
      module: "nodenext",
      strict: true,
      noUncheckedIndexedAccess: true,
      exactOptionalPropertyTypes: true,
      noEmit: true,
      types: ["node"],
      typeRoots: [join(root, "node_modules", "@types")],
      paths: { "@guest-forms/sdk": [SDK] },
    },
    files,
  };
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify(config));
  await writeFile(join(folder, "package.json"), '{ "type": "module" }');
  const { stdout } = await promisify(execFile)(process.execPath, [TSC, "-p", folder]).catch((error) => error);
  expect(stdout).toBe("");
});
