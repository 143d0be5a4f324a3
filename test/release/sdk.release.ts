import { readFile, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { gzipSync } from "node:zlib";
import { checkPackage, createPackageFromTarballData } from "@arethetypeswrong/core";
import { build } from "esbuild";
import { publint } from "publint";
import { formatMessage } from "publint/utils";
import { expect, test } from "vitest";
import { makeCleanClone, root, sdkFolder, TSC, TSC_5, useSdk } from "./sdk.js";

// Installs the packed SDK into blank projects and uses it there.
const use = await useSdk();

// Packs the SDK as a publisher does: `npm pack`, whose `prepack` builds it, in a clean clone.
const repository = join(use.folder, "guest-forms");
await makeCleanClone(repository);
const clone = join(repository, "sdk");
// The user may have turned install scripts off, as the repository does.
const packFlags = ["--json", "--ignore-scripts=false", "--pack-destination", use.folder];
const packed = await use.succeed(clone, "npm", "pack", ...packFlags);
const [{ filename }] = JSON.parse(packed.slice(packed.indexOf("["))) as [{ filename: string }];
const tarball = join(use.folder, filename);

/** Creates a project with these files, and installs the packed SDK in it. */
async function createProjectWithSdk(name: string, files: Record<string, unknown>): Promise<string> {
  const project = await use.createProject(name, files);
  await use.succeed(project, "npm", "install", "--offline", "--ignore-scripts", "--no-audit", "--no-fund", tarball);
  return project;
}

/** Calls all operations. Compiles with the es2022 library alone. */
const ALL_OPERATIONS = `
  const { data: form, replayed } = await client.forms.create(stay).withResponse();
  const moved = await client.forms.update(form.id, { ...stay, numberOfGuests: 3 });
  const same = await client.forms.retrieve(form.id);
  const ids = [];
  for await (const item of client.forms.list({ listingId, limit: 1 })) ids.push(item.id);
  const [first] = (await client.listings.list()).items;
  const listing = await client.listings.retrieve(listingId);
  let missing = "";
  await client.forms.retrieve("none").catch((error) => {
    if (error instanceof ResourceNotFoundError) missing = error.code;
  });
  const result = { replayed, moved: moved.numberOfGuests, same: same.id === form.id,
    listed: ids.includes(form.id), listing: listing.id === first?.id, missing };
`;
const EXPECTED_RESULT = {
  replayed: false,
  moved: 3,
  same: true,
  listed: true,
  listing: true,
  missing: "RESOURCE_NOT_FOUND",
};
const script = (listingId: string | undefined, year: number) => `
  const client = new GuestForms();
  const listingId = "${listingId}";
  const stay = { listingId, checkInDate: new Date("${year}-01-01T14:00:00Z"),
    checkOutDate: "${year}-01-03T10:00:00Z", numberOfGuests: 2 };
  ${ALL_OPERATIONS}`;
const typescript = (year: number) => `
import { GuestForms, ResourceNotFoundError, isKnownStatus, type FormV1, type FormStatus, type Page } from "@guest-forms/sdk";
import { FakeService } from "@guest-forms/sdk/testing";
import { signWebhook, unwrapWebhook, type WebhookEvent } from "@guest-forms/sdk/webhooks";
async function main(): Promise<unknown> {
  ${script(use.gateway.listings[0]?.id, year).replace("ids = []", "ids: string[] = []")}
  const status: FormStatus = form.status;
  const page: Page<FormV1> = await client.forms.list();
  const fake = client.withOptions({ fetch: new FakeService().fetch });
  const isEmpty = (await fake.forms.list()).items.length === 0;
  const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
  const event: WebhookEvent = { type: "form.created", timestamp: form.createdAt, sentAt: form.createdAt, data: { form } };
  const { body, headers } = await signWebhook(event, secret);
  const received = await unwrapWebhook(body, headers, secret);
  const isUnwrapped = received.type === "form.created" && received.data.form.id === form.id;
  return isEmpty && isUnwrapped && isKnownStatus(status) && page.items.length > 0 && result;
}
const { console } = globalThis as unknown as { console: { log(text: string): void } };
void main().then((result) => console.log(JSON.stringify(result)));
`;
const STRICT = {
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  skipLibCheck: false,
  target: "es2022",
  lib: ["es2022"],
  types: [],
};

test.each([
  ["nodenext, ESM", 2041, "module", { module: "nodenext", moduleResolution: "nodenext" }],
  ["nodenext, CommonJS", 2042, "commonjs", { module: "nodenext", moduleResolution: "nodenext" }],
  ["bundler", 2043, "module", { module: "esnext", moduleResolution: "bundler" }],
])(
  "a strict TypeScript project with %s compiles and runs all operations",
  { timeout: 60_000 },
  async (name, year, type, options) => {
    const project = await createProjectWithSdk(name, {
      "package.json": { name: "blank", private: true, type },
      "tsconfig.json": { compilerOptions: { ...STRICT, ...options, outDir: "out" }, files: ["use.ts"] },
      "use.ts": typescript(year),
    });
    for (const compiler of [TSC_5, TSC]) await use.succeed(project, process.execPath, compiler, "-p", ".");
    if (name === "bundler") {
      await build({
        absWorkingDir: project,
        entryPoints: ["use.ts"],
        outfile: join(project, "out/use.js"),
        bundle: true,
        minify: true,
        format: "esm",
      });
      // Prove that the bundle is self-contained.
      await rm(join(project, "node_modules"), { recursive: true });
    }
    const ran = await use.node(project, "out/use.js");
    expect(JSON.parse(ran.stdout), ran.output).toEqual(EXPECTED_RESULT);
  },
);

test.each([
  ["the DOM's", { lib: ["es2022", "dom"], types: [] }],
  ["Node's", { types: ["node"], typeRoots: [join(root, "node_modules/@types")] }],
  ["both", { lib: ["es2022", "dom"], types: ["node"], typeRoots: [join(root, "node_modules/@types")] }],
])(
  "the SDK accepts the platform's fetch, AbortSignal and console under %s types",
  { timeout: 60_000 },
  async (name, options) => {
    const project = await createProjectWithSdk(`platform ${name}`, {
      "package.json": { name: "blank", private: true, type: "module" },
      "tsconfig.json": {
        compilerOptions: { ...STRICT, module: "nodenext", ...options, noEmit: true },
        files: ["use.ts"],
      },
      "use.ts": `import { GuestForms, type Fetch } from "@guest-forms/sdk";
      import { signWebhook, unwrapWebhook } from "@guest-forms/sdk/webhooks";
      declare const request: Request;
      unwrapWebhook(await request.arrayBuffer(), request.headers, "whsec_a") satisfies Promise<{ type: string }>;
      new Request("https://a.test", { method: "POST", ...(await signWebhook("{}", "whsec_a")) });
      const traced: Fetch = (url, init) => fetch(url, { ...init, keepalive: true });
      new GuestForms({ fetch, logger: console });
      const client = new GuestForms({ fetch: (url, init) => fetch(url, init) });
      new GuestForms({ fetch: traced });
      const raw: Promise<Response> = client.forms.retrieve("a").asResponse();
      client.withOptions({ apiKey: async () => "b", fetchOptions: { dispatcher: {} } }).listings.list();
      client.forms.list({}, { signal: AbortSignal.timeout(5), headers: { a: "b" } });
      client.forms.retrieve("a", { signal: new AbortController().signal }) satisfies Promise<{ id: string }>;`,
    });
    for (const compiler of [TSC_5, TSC]) await use.succeed(project, process.execPath, compiler, "-p", ".");
  },
);

test("the README's install command installs the SDK that the service serves", { timeout: 60_000 }, async () => {
  const [line = ""] = (await readFile(join(sdkFolder, "README.md"), "utf8")).match(/^npm install .*$/m) ?? [];
  const project = await use.createProject("from the service", {
    "package.json": { name: "blank", private: true, type: "module" },
    "tsconfig.json": { compilerOptions: { ...STRICT, module: "nodenext" }, files: ["use.ts"] },
    "use.ts": typescript(2045),
  });
  await use.succeed(project, "sh", "-euc", line.replace(/http:\/\/[^/]+/, use.gateway.gateway.url));
  await use.succeed(project, process.execPath, TSC, "-p", ".");
  const ran = await use.node(project, "use.js");
  expect(JSON.parse(ran.stdout), ran.output).toEqual(EXPECTED_RESULT);
});

test("the README's quick start has six lines, compiles and runs", { timeout: 180_000 }, async () => {
  const readme = await readFile(join(sdkFolder, "README.md"), "utf8");
  const [, code = ""] = /```ts\n(.*?)```/s.exec(readme) ?? [];
  expect(code.trim().split("\n")).toHaveLength(6);
  const project = await createProjectWithSdk("quick start", {
    "package.json": { name: "blank", private: true, type: "module" },
    "tsconfig.json": {
      compilerOptions: {
        ...STRICT,
        noUncheckedIndexedAccess: false,
        lib: ["es2022", "dom"],
        module: "nodenext",
      },
      files: ["use.ts"],
    },
    "use.ts": code.replace("grf_rw_…", use.gateway.readWrite).replace(/http:[^"]*/, use.gateway.proxy.url),
  });
  await use.succeed(project, process.execPath, TSC, "-p", ".");
  expect((await use.node(project, "use.js")).stdout).toMatch(/^[0-9a-f-]{36} SENT true$/m);
});

test("the tarball contains only the build, the sources and the documents, and has no dependencies", async () => {
  const listed = await use.succeed(use.folder, "tar", "-tzf", tarball);
  const files = listed
    .trim()
    .split("\n")
    .map((path) => path.replace("package/", ""));
  const built = /^(dist\/(esm|cjs)\/[a-z-]+(\.d\.ts|\.js)(\.map)?|src\/[a-z-]+\.ts)$/;
  expect(files.filter((path) => !built.test(path)).sort()).toEqual([
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "dist/cjs/package.json",
    "package.json",
  ]);
  const manifest = JSON.parse(await readFile(join(clone, "package.json"), "utf8"));
  expect(manifest).not.toHaveProperty("dependencies");
  expect(manifest).not.toHaveProperty("peerDependencies");
  expect(manifest.sideEffects).toBe(false);
  for (const map of files.filter((path) => path.endsWith(".map"))) {
    const { sources } = JSON.parse(await readFile(join(clone, map), "utf8")) as { sources: string[] };
    expect(files).toEqual(expect.arrayContaining(sources.map((source) => join(dirname(map), source))));
  }
});

test.each([
  ["@guest-forms/sdk", 7_300, "index"],
  ["@guest-forms/sdk/webhooks", 2_500, "webhooks"],
])("the browser bundle of %s is at most %i bytes minified and gzipped", async (name, maxSize, file) => {
  const { outputFiles } = await build({
    entryPoints: [join(clone, `dist/esm/${file}.js`)],
    bundle: true,
    minify: true,
    format: "esm",
    platform: "browser",
    write: false,
  });
  const size = gzipSync(outputFiles[0]?.contents ?? "", { level: 9 }).length;
  console.log(`${name}: ${size} bytes minified and gzipped`);
  expect(size).toBeLessThanOrEqual(maxSize);
  expect(size).toBeGreaterThan(1_000);
});

test("the tarball passes publint", async () => {
  const data = await readFile(tarball);
  const { messages, pkg } = await publint({ pack: { tarball: new Uint8Array(data).buffer }, strict: true });
  expect(messages.map((message) => formatMessage(message, pkg))).toEqual([]);
});

test("the tarball passes attw: its types resolve as its modules do", async () => {
  const result = await checkPackage(createPackageFromTarballData(await readFile(tarball)));
  expect(result).toMatchObject({ types: { kind: "included" }, problems: [] });
});
