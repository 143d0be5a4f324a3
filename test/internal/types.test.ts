import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { FORM_STATUSES } from "../../server/forms/status.js";
import { makeTempFolder, runTool } from "../support/run-tool.js";

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

const MISTAKES: [name: string, line: string, message: RegExp][] = [
  ["a misspelled procedure", "client.forms.gett.query({ id: form.id });", /'gett' does not exist/],
  ["a missing field", "client.users.create.mutate({});", /'email' is missing/],
  ["an unknown field", "client.forms.get.query({ id: form.id, more: 1 });", /'more' does not exist/],
  [
    "a wrong type",
    "client.forms.setParty.mutate({ id: form.id, numberOfPets: '1' });",
    /not assignable to type/,
  ],
  ["an unknown field of a response", "form.guestEmail;", /'guestEmail' does not exist/],
  // The status is a union of the known ones, not just any text.
  ["an unknown status", "if (form.status === 'LOST') form.id;", /'"LOST"' have no overlap/],
];

/** Output of the compiler, by file. */
const errors = new Map<string, string>();

beforeAll(async () => {
  const folder = await makeTempFolder("consumer");
  const modules = join(folder, "node_modules");
  await mkdir(join(modules, "@trpc"), { recursive: true });
  await symlink(packageRoot(), join(modules, "guest-forms"));
  await symlink(join(packageRoot(), "node_modules/@trpc/client"), join(modules, "@trpc/client"));
  const files = { "tool.ts": TOOL, "in-process.ts": IN_PROCESS, "package.json": '{ "type": "module" }' };
  const mistakes = MISTAKES.map(([, line], n) => [`mistake-${n}.ts`, `${TOOL}\n  ${line}`] as const);
  for (const [name, text] of [...Object.entries(files), ...mistakes])
    await writeFile(join(folder, name), text);
  const compilerOptions = {
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    module: "nodenext",
    target: "es2022",
    lib: ["es2022", "dom"],
    types: [],
    noEmit: true,
    skipLibCheck: false,
  };
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.ts"] }));
  const tsc = join(packageRoot(), "node_modules/typescript/bin/tsc");
  const output = await runTool(process.execPath, [tsc, "-p", folder, "--pretty", "false"], 60);
  let file = "";
  for (const line of output.split("\n").filter(Boolean)) {
    file = /^(\S+?)\(\d+,\d+\): /.exec(line)?.[1]?.split("/").at(-1) ?? file;
    errors.set(file, `${errors.get(file) ?? ""}${line}\n`);
  }
});

test("a tool that imports only types, and a program that calls the core in process, compile in strict mode without skipLibCheck", () => {
  const mistaken = [...errors].filter(([file]) => !file.startsWith("mistake-"));
  expect(mistaken).toEqual([]);
});

test.each(MISTAKES.map((mistake, n) => [...mistake, n] as const))(
  "%s is a compiler error",
  (_name, _line, message, n) => {
    expect(errors.get(`mistake-${n}.ts`)).toMatch(message);
  },
);
