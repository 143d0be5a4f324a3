import { readdirSync } from "node:fs";
import { symlink } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import type { FormBody, FormV1 } from "../../server/forms/schema.js";
import { afterFile } from "../support/after-file.js";
import { makeFixture, startGatewayProcess } from "../support/gateway-processes.js";
import { type RequestOptions, readFormPages, sendRequest } from "../support/http-client.js";
import { AS_POSTGRES, InstalledPostgres } from "../support/installed-postgres.js";
import { mailEnv, startMailServer } from "../support/mail-server.js";
import { operatingBlock, operatingInline, runFromPage, runScript } from "../support/operating-page.js";
import { runCli, spawnCli } from "../support/processes.js";
import { runSql } from "../support/run-sql.js";
import { makeTempFolder } from "../support/run-tool.js";
import { uniqueStay } from "../support/stays.js";

interface Create {
  body: FormBody;
  /** The Idempotency-Key. */
  key: string;
}

/** A create and the form in its response. */
export type Acknowledged = Create & { form: FormV1 };

/** A page of the list of forms. */
export interface Page {
  items: unknown[];
  nextCursor: string | null;
}

export type BackedUpService = Awaited<ReturnType<typeof startBackedUpService>>;

/**
 * Starts a migrated service on a server of this version, which is backed up, with the commands of
 * gateway/docs/operating.md, and restored. The server archives its write-ahead log.
 */
export async function startBackedUpService(binary: string) {
  const postgres = await InstalledPostgres.create(binary);
  const backups = join(postgres.folder, "backups");
  await postgres.run(`mkdir -p ${backups}/wal`);
  await postgres.initialize(operatingBlock("archive_command").replaceAll("/var/backups", backups));
  await postgres.start();
  const mailServer = await startMailServer();
  afterFile(() => mailServer.close());
  /** The working directory of the operator. */
  const operatorFolder = await makeTempFolder("operator");
  await symlink(join(packageRoot(), "gateway/guest-forms.cjs"), join(operatorFolder, "guest-forms"));
  await runSql(postgres.url(), "CREATE ROLE guest_forms LOGIN");
  await runSql(postgres.url(), "CREATE DATABASE guest_forms OWNER guest_forms");
  const urlOf = (database: string) => postgres.url("guest_forms", database);
  expect((await runCli(["migrate"], { env: { DATABASE_URL: urlOf("guest_forms") } })).code).toBe(0);
  const fixture = await makeFixture(urlOf("guest_forms"));
  let { env } = fixture;
  let gateway = await startGatewayProcess(env);
  let creates = 0;

  // Commands of PostgreSQL run as the user who owns it. Folders of the page are below a temporary one.
  async function runOnMachine(script: string, replace: Record<string, string> = {}): Promise<string> {
    const { folder, port, binFolder } = postgres;
    const isOwn = script.startsWith("guest-forms");
    const made = readdirSync(backups).map((name) => name.replace(/\.dump$/, ""));
    const nameOf = (kind: string) => made.find((name) => name.startsWith(kind)) ?? `no ${kind}`;
    const { stdout } = await runScript(script, {
      env: { ...env, PGHOST: "127.0.0.1", PGPORT: String(port), PGUSER: "postgres" },
      cwd: isOwn ? operatorFolder : folder,
      binFolders: [isOwn ? operatorFolder : binFolder],
      replace: {
        "guest_forms-2026-11-21": nameOf("guest_forms-"),
        "base-2026-11-21": nameOf("base-"),
        "/var/backups": backups,
        "/var/lib/postgresql": folder,
        ...replace,
      },
      commandPrefix: isOwn ? [] : AS_POSTGRES,
    });
    return stdout;
  }

  const request = (path: string, options: RequestOptions = {}) =>
    sendRequest(`${gateway.url}${path}`, fixture.key.key, options);
  const send = ({ body, key }: Create) =>
    request("/v1/forms", { method: "POST", body, headers: { "Idempotency-Key": key } });

  return {
    postgres,
    mailServer,
    request,
    send,

    /** Runs the block of gateway/docs/operating.md that contains `text`, and returns its output. */
    runBlock: (text: string, replace?: Record<string, string>) =>
      runFromPage(operatingBlock(text), (script) => runOnMachine(script, replace)),

    /** Runs the inline command of gateway/docs/operating.md that contains `text`. */
    runInline: (text: string) => runFromPage(operatingInline(text), (script) => runOnMachine(script)),

    stopGateway: () => gateway.process.stop(),

    async startGateway(): Promise<void> {
      gateway = await startGatewayProcess(env);
    },

    /** Uses another database of the server from now on. */
    useDatabase(name: string): void {
      env = { ...env, DATABASE_URL: urlOf(name) };
    },

    /** Runs a worker until no email waits. */
    async sendAllEmails(): Promise<void> {
      const worker = spawnCli(["worker"], { env: { ...env, ...mailEnv(mailServer.url) } });
      const unsent = () => runSql(env.DATABASE_URL ?? "", "SELECT FROM emails WHERE state <> 'sent'");
      await expect.poll(unsent, { interval: 100 }).toEqual([]);
      await worker.stop();
    },

    async create(guestEmail: string | null): Promise<Acknowledged> {
      const body = uniqueStay(fixture.listing.id, { guestEmail }) as FormBody;
      const create = { body, key: `backup-${++creates}` };
      const { status, json } = await send(create);
      expect(status).toBe(201);
      return { ...create, form: json as FormV1 };
    },

    /** Updates the party and, if given, the address of a form. */
    async update({ body: { guestEmail: _, ...stay }, form }: Acknowledged, guestEmail?: string): Promise<void> {
      const body = { ...stay, numberOfGuests: 5, ...(guestEmail && { guestEmail }) };
      const { status } = await request(`/v1/forms/${form.id}`, { method: "PUT", body });
      expect(status).toBe(200);
    },

    /** All pages of the list of forms. */
    async readList(): Promise<Page[]> {
      const pages = await readFormPages(gateway.url, fixture.key.key, 7);
      return pages.map(({ json }) => json as Page);
    },

    /** Counts those of these forms that have an address in the database. */
    async countAddresses(created: Acknowledged[]): Promise<number> {
      const sql = "SELECT FROM forms WHERE guest_email IS NOT NULL AND id = ANY ($1)";
      return (await runSql(env.DATABASE_URL ?? "", sql, [created.map(({ form }) => form.id)])).length;
    },
  };
}
