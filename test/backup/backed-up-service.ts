import { readdirSync } from "node:fs";
import { symlink } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import type { FormBody, FormV1 } from "../../server/forms/schema.js";
import { afterFile } from "../support/after-file.js";
import { makeKey, makeListing, makeUser, openTestServices, setRole, TEST_SECRET } from "../support/factories.js";
import { type GatewayProcess, startGatewayProcess } from "../support/gateway-processes.js";
import { type RequestOptions, sendRequest } from "../support/http-client.js";
import { AS_POSTGRES, InstalledPostgres } from "../support/installed-postgres.js";
import { type MailServer, mailEnv, startMailServer } from "../support/mail-server.js";
import { operatingBlock, operatingInline, runFromPage, runScript } from "../support/operating-page.js";
import { runCli, spawnCli } from "../support/processes.js";
import { runSql } from "../support/run-sql.js";
import { makeTempFolder } from "../support/run-tool.js";
import { uniqueStay } from "../support/stays.js";

/** An acknowledged create. */
export interface Create {
  key: string;
  body: FormBody;
  idempotencyKey: string;
  form: FormV1;
}

/** A page of a list. */
export interface Page {
  path: string;
  cursor: string;
  json: { items: unknown[]; nextCursor: string | null };
}

interface Holder {
  key: string;
  listingIds: [string, string];
}

let creates = 0;

/** A service on a PostgreSQL that is backed up, with the commands of gateway/docs/operating.md, and restored. */
export class BackedUpService {
  readonly postgres: InstalledPostgres;
  readonly mailServer: MailServer;
  databaseUrl: string;
  /** Each has two listings; the second is a writer, and the third a reader, on a listing of the first. */
  readonly holders: Holder[] = [];
  readonly #folder: string;
  #gateway: GatewayProcess | undefined;

  private constructor(postgres: InstalledPostgres, mailServer: MailServer, folder: string) {
    this.postgres = postgres;
    this.mailServer = mailServer;
    this.#folder = folder;
    this.databaseUrl = postgres.url("guest_forms", "guest_forms");
  }

  /** Starts a migrated service on a server of this version, which archives its write-ahead log. */
  static async start(binary: string): Promise<BackedUpService> {
    const postgres = await InstalledPostgres.create(binary);
    const backups = join(postgres.folder, "backups");
    await postgres.run(`mkdir -p ${backups}/wal`);
    await postgres.initialize(operatingBlock("archive_command").replaceAll("/var/backups", backups));
    await postgres.start();
    const mailServer = await startMailServer();
    afterFile(() => mailServer.close());
    const folder = await makeTempFolder("operator");
    await symlink(join(packageRoot(), "gateway/guest-forms.cjs"), join(folder, "guest-forms"));
    const service = new BackedUpService(postgres, mailServer, folder);
    await runSql(postgres.url(), "CREATE ROLE guest_forms LOGIN");
    await runSql(postgres.url(), "CREATE DATABASE guest_forms OWNER guest_forms");
    expect((await runCli(["migrate"], { env: service.#env })).code).toBe(0);
    await service.#addHolders();
    await service.startGateway();
    return service;
  }

  async #addHolders(): Promise<void> {
    const services = await openTestServices({ DATABASE_URL: this.databaseUrl });
    for (const role of ["OWNER", "WRITER", "READER"] as const) {
      const { id: userId } = await makeUser(services);
      const [one, other] = [await makeListing(services, userId), await makeListing(services, userId)];
      const { key } = await makeKey(services, userId);
      this.holders.push({ key, listingIds: [one.id, other.id] });
      const shared = this.holders[0]?.listingIds[0] ?? "";
      if (role !== "OWNER") await setRole(services, shared, userId, role);
    }
  }

  get #env(): Record<string, string> {
    return { DATABASE_URL: this.databaseUrl, APP_SECRETS: TEST_SECRET, RATE_LIMIT_MAX: "1000000" };
  }

  async startGateway(): Promise<void> {
    this.#gateway = await startGatewayProcess({ ...this.#env, HOST: "127.0.0.1", PORT: "0" });
  }

  async stop(): Promise<void> {
    await this.#gateway?.process.stop();
  }

  /** Runs a worker until no email waits. */
  async sendAllEmails(): Promise<void> {
    const worker = spawnCli(["worker"], { env: { ...this.#env, ...mailEnv(this.mailServer.url) } });
    const unsent = () => runSql(this.databaseUrl, "SELECT FROM notifications WHERE state <> 'sent'");
    await expect.poll(unsent, { interval: 100 }).toEqual([]);
    await worker.stop();
  }

  /** Runs the block of gateway/docs/operating.md that contains `text`, and returns its output. */
  runBlock(text: string, replace: Record<string, string> = {}): Promise<string> {
    return runFromPage(operatingBlock(text), (script) => this.#runOnMachine(script, replace));
  }

  /** Runs the inline command of gateway/docs/operating.md that contains `text`. */
  runInline(text: string): Promise<string> {
    return runFromPage(operatingInline(text), (script) => this.#runOnMachine(script, {}));
  }

  // Commands of PostgreSQL run as the user who owns it. Folders of the page are below a temporary one.
  async #runOnMachine(script: string, replace: Record<string, string>): Promise<string> {
    const { folder, port, binFolder } = this.postgres;
    const isOwn = script.startsWith("guest-forms");
    const backups = join(folder, "backups");
    const made = readdirSync(backups).map((name) => name.replace(/\.dump$/, ""));
    const nameOf = (kind: string) => made.find((name) => name.startsWith(kind)) ?? `no ${kind}`;
    const { stdout } = await runScript(script, {
      env: { ...this.#env, PGHOST: "127.0.0.1", PGPORT: String(port), PGUSER: "postgres" },
      cwd: isOwn ? this.#folder : folder,
      binFolders: [isOwn ? this.#folder : binFolder],
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

  request(path: string, key: string, options: RequestOptions = {}) {
    return sendRequest(`${this.#gateway?.url}${path}`, key, options);
  }

  sendCreate({ key, body, idempotencyKey }: Omit<Create, "form">) {
    const headers = { "Idempotency-Key": idempotencyKey };
    return this.request("/v1/forms", key, { method: "POST", body, headers });
  }

  /** Creates a form on a listing of a holder. */
  async create(guestEmail: string | null, holder = 0, listing: 0 | 1 = 1): Promise<Create> {
    const { key, listingIds } = this.holders[holder] as Holder;
    const body = uniqueStay(listingIds[listing], { guestEmail }) as FormBody;
    const create = { key, body, idempotencyKey: `backup-${++creates}` };
    const { status, json } = await this.sendCreate(create);
    expect(status).toBe(201);
    return { ...create, form: json as FormV1 };
  }

  /** Updates the party and, if given, the address of a form. */
  async update({ key, body: { guestEmail: _, ...stay }, form }: Create, guestEmail?: string): Promise<void> {
    const body = { ...stay, numberOfGuests: 5, ...(guestEmail && { guestEmail }) };
    const { status } = await this.request(`/v1/forms/${form.id}`, key, { method: "PUT", body });
    expect(status).toBe(200);
  }

  /** All pages of all lists of all holders: forms, listings, and the forms of each of their listings. */
  async readLists(): Promise<Page[]> {
    const pages: Page[] = [];
    for (const { key, listingIds } of this.holders) {
      const ofListings = listingIds.map((id) => `/v1/forms?limit=7&listingId=${id}`);
      for (const path of ["/v1/forms?limit=7", "/v1/listings?limit=7", ...ofListings]) {
        for (let cursor: string | null = ""; cursor !== null; ) {
          const { status, json } = await this.request(`${path}${cursor && `&cursor=${cursor}`}`, key);
          expect([path, status]).toEqual([path, 200]);
          const page: Page = { path, cursor, json: json as Page["json"] };
          pages.push(page);
          cursor = page.json.nextCursor;
        }
      }
    }
    return pages;
  }

  /** Counts those of these forms that have an address in the database. */
  async countAddresses(created: Create[]): Promise<number> {
    const sql = "SELECT FROM forms WHERE guest_email IS NOT NULL AND id = ANY ($1)";
    return (await runSql(this.databaseUrl, sql, [created.map(({ form }) => form.id)])).length;
  }
}
