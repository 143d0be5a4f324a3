import { execFile } from "node:child_process";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { FORM_STATUSES } from "../../server/forms/status.js";
import { makeTempFolder, runTool } from "../support/run-tool.js";
import { TSC } from "./sdk.js";

const TOOL = `
  import { createTRPCClient, httpLink, TRPCClientError } from "@trpc/client";
  import type { AppRouter } from "guest-forms/router";

  const client = createTRPCClient<AppRouter>({ links: [httpLink({ url: "http://127.0.0.1:3001/trpc" })] });
  const form = await client.forms.get.query({ id: "8a0e2f3c-6a58-4d5c-9d3e-2f0a6f1c7b11" });
  const status: ${FORM_STATUSES.map((status) => `"${status}"`).join(" | ")} = form.status;
  const guests: number | null = form.numberOfGuests;
  const next: string | null = (await client.listings.list.query({ limit: 10 })).nextCursor;
  await client.forms.setParty.mutate({ id: form.id, numberOfPets: null });
  await client.listings.update.mutate({ id: form.listingId, title: "New" });
  const [entry] = await client.audit.trail.query({ subjectId: form.id });
  const at: string | undefined = entry?.at;
  try {
    await client.users.create.mutate({ email: "a@example.com" });
  } catch (error) {
    if (error instanceof TRPCClientError) {
      const data = (error as TRPCClientError<AppRouter>).data;
      const code: "VALIDATION_ERROR" | string | undefined = data?.serviceCode;
      const field: string | undefined = data?.errors?.[0]?.field;
      const id: string | undefined = data?.correlationId;
      console.log(code, field, id);
    }
  }
  console.log(status, guests, next, at);
`;

const IN_PROCESS = `
  import { createCaller, openServices, readSettings, ServiceError } from "guest-forms/caller";

  const { services, close } = await openServices(readSettings(), { warn() {} });
  const { forms } = createCaller(services, { kind: "user", userId: "8a0e2f3c-6a58-4d5c-9d3e-2f0a6f1c7b11" });
  try {
    const form = await forms.get({ id: "8a0e2f3c-6a58-4d5c-9d3e-2f0a6f1c7b11" });
    const guests: number | null = form.numberOfGuests;
  } catch (error) {
    if (error instanceof ServiceError && error.serviceCode === "VALIDATION_ERROR") {
      const field: string | undefined = error.errors?.[0]?.field;
    }
  }
  await close();
`;

/** What a tool sees of the released types. */
const SEEN = [
  "inferRouterInputs<AppRouter>",
  "inferRouterOutputs<AppRouter>",
  "{ [Noun in keyof Caller]: Caller[Noun][keyof Caller[Noun]] }[keyof Caller]",
  "Principal",
  "Services",
  "typeof openServices",
  "typeof readSettings",
];

const ROWS = `
  import type { inferRouterInputs, inferRouterOutputs } from "@trpc/server";
  import type { AppRouter } from "guest-forms/router";
  import { openServices, readSettings, type Caller, type Principal, type Services } from "guest-forms/caller";

  type IsAny<T> = 0 extends 1 & T ? true : false;
  /** "has any" if T is or contains any. */
  type Check<T> = true extends HasAny<T> ? "has any" : "typed";
  type HasAny<T, Depth extends 0[] = []> =
    IsAny<T> extends true ? true
    : Depth["length"] extends 8 ? false
    : T extends (...args: infer Args) => infer Result ? HasAny<[Args, Awaited<Result>], [...Depth, 0]>
    : T extends readonly (infer Item)[] ? HasAny<Item, [...Depth, 0]>
    : T extends object ? { [Key in keyof T]-?: HasAny<T[Key], [...Depth, 0]> }[keyof T]
    : false;
  const detected: Check<[{ list: () => Promise<{ row: any }[]> }]> = "has any";
  ${SEEN.map(
    (type, n) => `
  const typed${n}: Check<${type}> = "typed";
  // @ts-expect-error: if a module is missing, the types that need it accept everything.
  const resolved${n}: Check<${type}> = 0;`,
  ).join("")}
  console.log([detected, ${SEEN.map((_, n) => `typed${n}, resolved${n}`)}]);
`;

/** The page's command that installs the release, for the one in `tarball`. */
async function installCommand(tarball: string): Promise<string> {
  const page = await readFile(join(packageRoot(), "gateway/docs/internal-tools.md"), "utf8");
  const line = /^npm install .*guest-forms-[\d.]+tgz.*$/m.exec(page)?.[0] ?? "";
  return line.replace(/\S*guest-forms-[\d.]+tgz/, tarball);
}

const folder = await makeTempFolder("consumer");
const run = (command: string, ...args: string[]) => promisify(execFile)(command, args, { cwd: folder });
await run(process.execPath, join(packageRoot(), "gateway/build/pack.mjs"), folder);
const [tarball = ""] = (await readdir(folder)).filter((name) => name.endsWith(".tgz"));
const compilerOptions = {
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  module: "nodenext",
  target: "es2022",
  lib: ["es2022", "dom", "esnext.disposable"],
  types: [],
  noEmit: true,
  skipLibCheck: false,
};
const files = {
  "package.json": '{ "name": "tool", "private": true, "type": "module" }',
  "tsconfig.json": JSON.stringify({ compilerOptions, include: ["*.ts"] }),
  "tool.ts": TOOL,
  "in-process.ts": IN_PROCESS,
  "rows.ts": ROWS,
};
for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
await run("sh", "-euc", `${await installCommand(`./${tarball}`)} --no-audit --no-fund`);
const output = await runTool(process.execPath, [TSC, "-p", folder, "--pretty", "false"], 60);

// In a project that has only the packed release and tRPC's client.
test("a tool that imports only types, and a program that calls the core in process, compile in strict mode without skipLibCheck, and no input, output, setting or service is or contains `any`", () => {
  expect(output.split("\n").filter((line) => line.includes("error TS"))).toEqual([]);
});
