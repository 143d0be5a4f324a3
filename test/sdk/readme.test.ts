import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { beforeAll, expect, test } from "vitest";
import { spawnNode } from "../support/processes.js";
import { makeTempFolder, runTool } from "../support/run-tool.js";
import { STRICT_COMPILER_OPTIONS } from "../support/strict-compiler-options.js";
import { useGateway } from "./setup.js";

// Runs the samples of the SDK's README. The quick start is run by test/release/sdk-examples.release.ts, from the tarball.
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
  "Repeat, rebook or change 1": {
    before: "const booking = { id: 7 };",
    after: `const again = client.forms.create(input, { idempotencyKey: "booking-7" }).withResponse();
      assert.equal((await again).replayed, true);
      assert.equal((await client.forms.retrieve(id)).numberOfGuests, 3);`,
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

/** A sample with its setup and assertions, as a function. */
function toFunction({ name, source }: (typeof samples)[number]): string {
  const { before = "", after } = SAMPLES[name] ?? { after: "" };
  return `async ({ client, listingId, input, printed, console }: Context) => {
    ${before}
    {
      ${source.replace(/^import .*$/gm, "")}
      ${after}
    }
  }`;
}

const PROGRAM = `import assert from "node:assert/strict";
  import { inspect } from "node:util";
  import { ForbiddenError, GuestForms, GuestFormsError, ValidationError, isKnownStatus, type FormInput, type FormV1,
    type KnownFormStatus } from "@guest-forms/sdk";
  const UUID = /^[0-9a-f-]{36}$/;
  interface Context {
    client: GuestForms;
    listingId: string;
    input: FormInput;
    /** What the sample prints. */
    printed: unknown[];
    console: { log(...values: unknown[]): void };
  }
  const samples: Record<string, (context: Context) => Promise<void>> = {
    ${testedSamples.map((sample) => `${JSON.stringify(sample.name)}: ${toFunction(sample)},`).join("\n")}
  };
  const outcomes: Record<string, string> = {};
  for (const [index, [name, run]] of Object.entries(samples).entries()) {
    const listingId = process.env.LISTING_ID ?? "";
    const checkInDate = new Date(Date.UTC(2040, 0, 3 * index + 1, 14));
    const checkOutDate = new Date(Date.UTC(2040, 0, 3 * index + 2, 10));
    const input = { listingId, checkInDate, checkOutDate, numberOfGuests: 2 };
    const printed: unknown[] = [];
    const console = { log: (...values: unknown[]) => void printed.push(...values) };
    outcomes[name] = await run({ client: new GuestForms(), listingId, input, printed, console })
      .then(() => "passed", (error) => inspect(error));
  }
  process.stdout.write(JSON.stringify(outcomes));`;

let folder: string;
let outcomes: Record<string, string>;

beforeAll(async () => {
  folder = await makeTempFolder("readme");
  const entry = join(folder, "samples.ts");
  const outfile = join(folder, "samples.mjs");
  await writeFile(entry, PROGRAM);
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
    GUEST_FORMS_API_KEY: context.readWrite,
    GUEST_FORMS_BASE_URL: context.proxy.url,
    READ_ONLY_KEY: context.readOnly,
    LISTING_ID: context.listings[0]?.id,
  };
  const { stdout, stderr } = await spawnNode([outfile], { env }).done;
  expect(stderr).toBe("");
  outcomes = JSON.parse(stdout);
});

test("every README sample has a test", () => {
  expect(testedSamples.map(({ name }) => name)).toEqual(Object.keys(SAMPLES));
});

test.each(testedSamples)("README sample $name runs and its claims hold", ({ name }) => {
  expect(outcomes[name]).toBe("passed");
});

test("the README samples compile in strict mode", async () => {
  await writeFile(
    join(folder, "tsconfig.json"),
    JSON.stringify({ compilerOptions: STRICT_COMPILER_OPTIONS, files: ["samples.ts"] }),
  );
  await writeFile(join(folder, "package.json"), '{ "type": "module" }');
  expect(await runTool(process.execPath, [TSC, "-p", folder], 120)).toBe("");
});
