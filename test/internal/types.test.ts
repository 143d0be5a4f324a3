import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { packageRoot } from "../../prisma/engine.js";

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "guest-forms-consumer-"));
  const modules = join(folder, "node_modules");
  await mkdir(join(modules, "@trpc"), { recursive: true });
  await symlink(packageRoot(), join(modules, "guest-forms"));
  await symlink(join(packageRoot(), "node_modules/@trpc/client"), join(modules, "@trpc/client"));
  await writeFile(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  await writeFile(
    join(folder, "tsconfig.json"),
    JSON.stringify({
      compilerOptions: {
        strict: true,
        exactOptionalPropertyTypes: true,
        noUncheckedIndexedAccess: true,
        module: "nodenext",
        target: "es2022",
        lib: ["es2022", "dom"],
        types: [],
        noEmit: true,
        skipLibCheck: false,
      },
      include: ["*.ts"],
    }),
  );
});

afterAll(() => rm(folder, { recursive: true, force: true }));

/** Compiles a file of a consumer and returns the output of the compiler. */
async function compile(text: string): Promise<string> {
  await writeFile(join(folder, "tool.ts"), text);
  const tsc = join(packageRoot(), "node_modules/typescript/bin/tsc");
  try {
    await promisify(execFile)(process.execPath, [tsc, "-p", folder]);
    return "";
  } catch (error) {
    return (error as { stdout: string }).stdout;
  }
}

const TOOL = `
  import { createTRPCClient, httpLink, TRPCClientError } from "@trpc/client";
  import type { AppRouter } from "guest-forms/router";

  const client = createTRPCClient<AppRouter>({ links: [httpLink({ url: "http://127.0.0.1:3001/trpc" })] });
  const form = await client.forms.get.query({ id: "8a0e2f3c-6a58-4d5c-9d3e-2f0a6f1c7b11" });
  const status: "SENT" | "COMPLETED" | "ACCEPTED" | "REJECTED" | "VALIDATED" | "INVALIDATED" | "CHECKED_OUT" | "UNKNOWN" =
    form.status;
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

test("a tool that imports only types compiles in strict mode without skipLibCheck", async () => {
  expect(await compile(TOOL)).toBe("");
}, 60_000);

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

test("a program that calls the core in process compiles in strict mode without skipLibCheck", async () => {
  expect(await compile(IN_PROCESS)).toBe("");
}, 60_000);

test.each([
  ["a misspelled procedure", "client.forms.gett.query({ id: form.id });", /'gett' does not exist/],
  ["a missing field", "client.users.create.mutate({});", /'email' is missing/],
  ["an unknown field", "client.forms.get.query({ id: form.id, more: 1 });", /'more' does not exist/],
  [
    "a wrong type",
    "client.forms.setParty.mutate({ id: form.id, numberOfPets: '1' });",
    /not assignable to type/,
  ],
  ["an unknown field of a response", "form.guestEmail;", /'guestEmail' does not exist/],
])(
  "%s is a compiler error",
  async (_name, line, message) => {
    expect(await compile(`${TOOL}\n  ${line}`)).toMatch(message);
  },
  60_000,
);
