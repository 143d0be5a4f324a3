import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  CORRELATION_ID,
  errorEnvelope,
  passThrough,
  resetBeforeProcessing,
  respondWith,
} from "../sdk/fault-proxy.js";
import { useGateway } from "../sdk/gateway.js";

// Builds and packs the SDK, installs the tarball into blank projects and uses it there.
const root = fileURLToPath(new URL("../..", import.meta.url));
const sdk = join(root, "sdk");
const toolPath = (path: string) => join(root, "node_modules", path);
const TSC = toolPath("typescript/bin/tsc");
const TSC_5 = toolPath("@arethetypeswrong/core/node_modules/typescript/bin/tsc");

const context = useGateway();
let temporary: string;
let tarball: string;

interface CommandResult {
  code: number;
  output: string;
  stdout: string;
}

async function run(cwd: string, command: string, ...args: string[]): Promise<CommandResult> {
  const env = {
    ...process.env,
    GUEST_FORMS_API_KEY: context.readWrite,
    GUEST_FORMS_BASE_URL: context.proxy.url,
  };
  try {
    const { stdout, stderr } = await promisify(execFile)(command, args, { cwd, env });
    return { code: 0, output: stdout + stderr, stdout };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    return { code, output: stdout + stderr, stdout };
  }
}
const node = (cwd: string, ...args: string[]) => run(cwd, process.execPath, ...args);

/** Creates a directory with these files and installs the tarball into it. */
async function createProject(name: string, files: Record<string, unknown>): Promise<string> {
  const directory = join(temporary, name);
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(directory, path)), { recursive: true });
    await writeFile(join(directory, path), typeof content === "string" ? content : JSON.stringify(content));
  }
  const installed = await run(
    directory,
    "npm",
    "install",
    "--offline",
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    tarball,
  );
  expect(installed.code, installed.output).toBe(0);
  return directory;
}

beforeAll(async () => {
  temporary = await mkdtemp(join(tmpdir(), "guest-forms-sdk-"));
  const built = await node(sdk, "build.mjs");
  expect(built.code, built.output).toBe(0);
  const packed = await run(sdk, "npm", "pack", "--json", "--ignore-scripts", "--pack-destination", temporary);
  expect(packed.code, packed.output).toBe(0);
  const [{ filename }] = JSON.parse(packed.stdout) as [{ filename: string }];
  tarball = join(temporary, filename);
}, 120_000);
afterAll(() => rm(temporary, { recursive: true, force: true }));

/** Calls all six operations. Compiles with the es2022 library alone. */
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
async function main(): Promise<unknown> {
  ${script(context.listings[0]?.id, year).replace("ids = []", "ids: string[] = []")}
  const status: FormStatus = form.status;
  const page: Page<FormV1> = await client.forms.list();
  return isKnownStatus(status) && page.items.length > 0 && result;
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

describe("in a blank project", () => {
  test.each([
    ["nodenext, ESM", 2041, "module", { module: "nodenext", moduleResolution: "nodenext" }],
    ["nodenext, CommonJS", 2042, "commonjs", { module: "nodenext", moduleResolution: "nodenext" }],
    ["bundler", 2043, "module", { module: "esnext", moduleResolution: "bundler" }],
  ])(
    "a strict TypeScript project with %s compiles and runs all six operations",
    { timeout: 60_000 },
    async (name, year, type, options) => {
      const project = await createProject(name, {
        "package.json": { name: "blank", private: true, type },
        "tsconfig.json": { compilerOptions: { ...STRICT, ...options, outDir: "out" }, files: ["use.ts"] },
        "use.ts": typescript(year),
      });
      for (const compiler of [TSC_5, TSC]) {
        const compiled = await node(project, compiler, "-p", ".");
        expect(compiled.code, compiled.output).toBe(0);
      }
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
      const ran = await node(project, "out/use.js");
      expect(JSON.parse(ran.stdout), ran.output).toEqual(EXPECTED_RESULT);
    },
  );

  test("a CommonJS JavaScript project runs all six operations", { timeout: 180_000 }, async () => {
    const project = await createProject("commonjs", {
      "package.json": { name: "blank", private: true },
      "use.js": `const { GuestForms, ResourceNotFoundError } = require("@guest-forms/sdk");
        (async () => { ${script(context.listings[0]?.id, 2044)} console.log(JSON.stringify(result)); })();`,
    });
    const ran = await node(project, "use.js");
    expect(JSON.parse(ran.stdout), ran.output).toEqual(EXPECTED_RESULT);
  });

  test.each([
    ["the DOM's", { lib: ["es2022", "dom"], types: [] }],
    ["Node's", { types: ["node"], typeRoots: [toolPath("@types")] }],
    ["both", { lib: ["es2022", "dom"], types: ["node"], typeRoots: [toolPath("@types")] }],
  ])(
    "the SDK accepts the platform's fetch, AbortSignal and console under %s types",
    { timeout: 60_000 },
    async (name, options) => {
      const project = await createProject(`platform ${name}`, {
        "package.json": { name: "blank", private: true, type: "module" },
        "tsconfig.json": {
          compilerOptions: { ...STRICT, module: "nodenext", ...options, noEmit: true },
          files: ["use.ts"],
        },
        "use.ts": `import { GuestForms, type Fetch } from "@guest-forms/sdk";
        const traced: Fetch = (url, init) => fetch(url, { ...init, keepalive: true });
        new GuestForms({ fetch, logger: console });
        const client = new GuestForms({ fetch: (url, init) => fetch(url, init) });
        new GuestForms({ fetch: traced });
        const raw: Promise<Response> = client.forms.retrieve("a").asResponse();
        client.withOptions({ apiKey: async () => "b", fetchOptions: { dispatcher: {} } }).listings.list();
        client.forms.list({}, { signal: AbortSignal.timeout(5), headers: { a: "b" } });
        client.forms.retrieve("a", { signal: new AbortController().signal }) satisfies Promise<{ id: string }>;`,
      });
      for (const compiler of [TSC_5, TSC]) {
        const compiled = await node(project, compiler, "-p", ".");
        expect(compiled.code, compiled.output).toBe(0);
      }
    },
  );
});

test("the README's install command works from a checkout without node_modules", {
  timeout: 300_000,
}, async ({ skip }) => {
  const [line = ""] = (await readFile(join(sdk, "README.md"), "utf8")).match(/^npm install .*$/m) ?? [];
  const listed = await run(sdk, "git", "ls-files", "--cached", "--others", "--exclude-standard");
  for (const path of listed.stdout.trim().split("\n")) {
    await cp(join(sdk, path), join(temporary, "guest-forms", "sdk", path));
  }
  const project = join(temporary, "from a checkout");
  await mkdir(project);
  await writeFile(join(project, "package.json"), '{ "name": "blank", "private": true, "type": "module" }');
  const compilerOptions = { ...STRICT, module: "nodenext" };
  await writeFile(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["use.ts"] }));
  await writeFile(join(project, "use.ts"), typescript(2045));
  const installed = await run(project, "sh", "-euc", line);
  const offline = /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENOTCACHED/.test(installed.output);
  if (offline && !process.env.CI) skip("the npm registry is unreachable");
  expect(installed.code, installed.output).toBe(0);
  const compiled = await node(project, TSC, "-p", ".");
  expect(compiled.code, compiled.output).toBe(0);
  const ran = await node(project, "use.js");
  expect(JSON.parse(ran.stdout), ran.output).toEqual(EXPECTED_RESULT);
});

test("the README's quick start has six lines, compiles and runs", { timeout: 180_000 }, async () => {
  const readme = await readFile(join(sdk, "README.md"), "utf8");
  const [, code = ""] = /```ts\n(.*?)```/s.exec(readme) ?? [];
  expect(code.trim().split("\n")).toHaveLength(6);
  const project = await createProject("quick start", {
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
    "use.ts": code.replace("grf_rw_…", context.readWrite).replace(/http:[^"]*/, context.proxy.url),
  });
  const compiled = await node(project, TSC, "-p", ".");
  expect(compiled.code, compiled.output).toBe(0);
  expect((await node(project, "use.js")).stdout).toMatch(/^[0-9a-f-]{36} SENT true$/m);
});

describe("the package", () => {
  test("the tarball contains only the build, the sources and the documents, and has no dependencies", async () => {
    const listed = await run(temporary, "tar", "-tzf", tarball);
    const files = listed.stdout
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
    const manifest = JSON.parse(await readFile(join(sdk, "package.json"), "utf8"));
    expect(manifest).not.toHaveProperty("dependencies");
    expect(manifest).not.toHaveProperty("peerDependencies");
    expect(manifest.sideEffects).toBe(false);
    for (const map of files.filter((path) => path.endsWith(".map"))) {
      const { sources } = JSON.parse(await readFile(join(sdk, map), "utf8")) as { sources: string[] };
      expect(files).toEqual(expect.arrayContaining(sources.map((source) => join(dirname(map), source))));
    }
  });

  test("the SDK pins the TypeScript version of the repository", async () => {
    const { devDependencies } = JSON.parse(await readFile(join(sdk, "package.json"), "utf8"));
    const repository = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
    expect(devDependencies).toEqual({ typescript: repository.devDependencies.typescript });
  });

  test("the browser bundle is at most 6,000 bytes minified and gzipped", async () => {
    const { outputFiles } = await build({
      entryPoints: [join(sdk, "dist/esm/index.js")],
      bundle: true,
      minify: true,
      format: "esm",
      platform: "browser",
      write: false,
    });
    const size = gzipSync(outputFiles[0]?.contents ?? "", { level: 9 }).length;
    console.log(`@guest-forms/sdk: ${size} bytes minified and gzipped`);
    expect(size).toBeLessThanOrEqual(6_000);
    expect(size).toBeGreaterThan(1_000);
  });

  test("a bundle that does not use the SDK does not include it", async () => {
    const { outputFiles } = await build({
      stdin: { contents: 'import { VERSION } from "./sdk/dist/esm/index.js";', resolveDir: root },
      bundle: true,
      minify: true,
      format: "esm",
      write: false,
    });
    expect(outputFiles[0]?.text).toBe("");
  });

  test("the tarball passes publint", { timeout: 180_000 }, async () => {
    const linted = await node(root, toolPath("publint/src/cli.js"), "run", tarball, "--strict");
    expect(linted.code, linted.output).toBe(0);
    expect(linted.output).toContain("All good!");
  });

  test("the tarball passes attw", { timeout: 180_000 }, async () => {
    const checked = await node(
      root,
      toolPath("@arethetypeswrong/cli/dist/index.js"),
      tarball,
      "--format",
      "json",
    );
    const { analysis, problems } = JSON.parse(checked.stdout);
    expect(analysis.types).toEqual({ kind: "included" });
    expect(problems ?? {}).toEqual({});
    expect(checked.code, checked.output).toBe(0);
  });
});

describe("the examples", { timeout: 90_000 }, () => {
  const example = (name: string, ...args: string[]) => node(temporary, join(sdk, "examples", name), ...args);
  const listingId = () => context.listings[2]?.id ?? "";

  test("the examples pass type checking", { timeout: 180_000 }, async () => {
    const checked = await node(root, TSC, "-p", "sdk/examples");
    expect(checked.code, checked.output).toBe(0);
  });

  test("import-csv creates one form per row, even if it runs twice", async () => {
    const head = "\uFEFFlistingId,checkInDate,checkOutDate,numberOfGuests,guestEmail\r\n";
    const row = (day: number, email = "") =>
      `${listingId()},2035-01-${10 + day}T15:00:00Z,2035-01-${11 + day}T10:00:00Z,2,${email}\r\n`;
    const bad = `${listingId()},2035-01-12T15:00:00Z,2035-01-11T10:00:00Z,2,"a ""b"" <c@d.e>,"\r\n`;
    await writeFile(join(temporary, "stays.csv"), head + row(1) + row(2, "ana@example.com") + bad + row(3));
    const first = await example("import-csv.mjs", "stays.csv");
    expect(first.stdout).toBe("3 created, 0 already existed, 1 failed, 4 in total\n");
    expect(first.output).toContain("row 3: checkOutDate ");
    expect(first.code).toBe(1);
    await writeFile(
      join(temporary, "stays.csv"),
      head + row(1) + row(2, "ana@example.com") + row(3) + row(4),
    );
    const second = await example("import-csv.mjs", "stays.csv");
    expect(second).toMatchObject({ code: 0, stdout: "1 created, 3 already existed, 0 failed, 4 in total\n" });
    const imported = (await context.forms()).filter((form) => form.checkInDate?.startsWith("2035-"));
    expect(imported).toHaveLength(4);
  });

  test("import-csv imports stays.csv", async () => {
    const imported = await example("import-csv.mjs", join(sdk, "examples", "stays.csv"), listingId());
    expect(imported).toMatchObject({
      code: 0,
      stdout: "3 created, 0 already existed, 0 failed, 3 in total\n",
    });
  });

  test("mirror-forms resumes after a failure and appends new forms", async () => {
    const forms = () => context.forms(listingId());
    const add = async (count: number, year: number) => {
      for (let i = 0; i < count; i++) {
        await context.client().forms.create({
          listingId: listingId(),
          checkInDate: new Date(Date.UTC(year, 0, i + 1, 15)),
          checkOutDate: new Date(Date.UTC(year, 0, i + 2, 10)),
          numberOfGuests: 1,
        });
      }
    };
    const mirrored = async () =>
      (await readFile(join(temporary, "forms.jsonl"), "utf8"))
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line));
    await add(250, 2036);
    // The third page fails permanently, after two pages were written.
    const { proxy } = context;
    proxy.injectNext(passThrough, passThrough, errorEnvelope(403, "FORBIDDEN"));
    const stopped = await example("mirror-forms.mjs", "forms.jsonl", listingId());
    expect(stopped.code).toBe(1);
    expect(await mirrored()).toEqual((await forms()).slice(0, 200));
    await writeFile(join(temporary, "forms.jsonl"), '{"half', { flag: "a" });
    proxy.requests.length = 0;
    expect(await example("mirror-forms.mjs", "forms.jsonl", listingId())).toMatchObject({ code: 0 });
    expect(proxy.requests).toHaveLength(1);
    expect(await mirrored()).toEqual(await forms());
    await add(120, 2037);
    expect(await example("mirror-forms.mjs", "forms.jsonl", listingId())).toMatchObject({ code: 0 });
    expect(await mirrored()).toEqual(await forms());
  });

  test("handle-errors prints advice for each error", async () => {
    const created = await example("handle-errors.mjs", listingId());
    expect(created).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^Form [0-9a-f-]{36} is SENT\n$/),
    });
    const advice = async (fault: Parameters<typeof context.proxy.injectAlways>[0]) => {
      context.proxy.injectAlways(fault);
      const ran = await example("handle-errors.mjs", listingId());
      expect(ran.code).toBe(1);
      return ran.output;
    };
    expect(await advice(errorEnvelope(401, "UNAUTHENTICATED"))).toContain(
      `get a new one.\ncorrelation: ${CORRELATION_ID}`,
    );
    expect(await advice(errorEnvelope(429, "RATE_LIMITED", { "retry-after": "42" }))).toContain(
      "retry in 42 s",
    );
    expect(
      await advice(errorEnvelope(400, "VALIDATION_ERROR", {}, { errors: [{ field: "a", issue: "b" }] })),
    ).toContain("a: b");
    expect(await advice(respondWith(404, "<p>"))).toContain("perhaps from a proxy");
    expect(await advice(resetBeforeProcessing)).toContain("Retry with the same idempotencyKey");
  });
});
