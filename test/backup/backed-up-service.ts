import { readdirSync } from "node:fs";
import { symlink } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { afterFile } from "../support/after-file.js";
import {
  asOperator,
  makeListing,
  makeUser,
  openTestServices,
  setRole,
  TEST_SECRET,
} from "../support/factories.js";
import { type GatewayProcess, startGatewayProcess } from "../support/gateway-processes.js";
import { AS_POSTGRES, type InstalledPostgres } from "../support/installed-postgres.js";
import { mailEnv, startMailServer } from "../support/mail-server.js";
import { operatingBlock, operatingInline, runFromPage, runScript } from "../support/operating-page.js";
import { type RunningProcess, runCli, spawnCli } from "../support/processes.js";
import { runSql } from "../support/run-sql.js";
import { makeTempFolder } from "../support/run-tool.js";
import { type Create, createForm, type Page, readAllLists, updateForm } from "./guest-data.js";

const FORMS_PER_HOLDER = 30;

interface Holder {
  key: string;
  keyId: string;
  listingIds: string[];
}

/** A service on a PostgreSQL that is backed up, with the commands of gateway/docs/operating.md, and restored. */
export class BackedUpService {
  readonly #postgres: InstalledPostgres;
  readonly #mail: Awaited<ReturnType<typeof startMailServer>>;
  readonly #folder: string;
  databaseUrl: string;
  holders: Holder[] = [];
  gateway: GatewayProcess | undefined;
  #worker: RunningProcess | undefined;

  private constructor(
    postgres: InstalledPostgres,
    mail: Awaited<ReturnType<typeof startMailServer>>,
    folder: string,
  ) {
    this.#postgres = postgres;
    this.#mail = mail;
    this.#folder = folder;
    this.databaseUrl = postgres.url("guest_forms", "guest_forms");
  }

  /** Starts a migrated service with four key holders, of whom the second and third have a role on a listing of the first. */
  static async start(postgres: InstalledPostgres): Promise<BackedUpService> {
    const mail = await startMailServer();
    afterFile(() => mail.close());
    const folder = await makeTempFolder("operator");
    await symlink(join(packageRoot(), "gateway/guest-forms.cjs"), join(folder, "guest-forms"));
    const service = new BackedUpService(postgres, mail, folder);
    await runSql(postgres.url(), "CREATE ROLE guest_forms LOGIN");
    await runSql(postgres.url(), "CREATE DATABASE guest_forms OWNER guest_forms");
    await service.guestForms("migrate");
    await service.#addHolders();
    await service.startGateway();
    return service;
  }

  get #env(): Record<string, string> {
    return { DATABASE_URL: this.databaseUrl, APP_SECRETS: TEST_SECRET, RATE_LIMIT_MAX: "1000000" };
  }

  get url(): string {
    return this.gateway?.url ?? "";
  }

  /** Ids of the forms in the emails that guests got, in order. */
  get emailedForms(): string[] {
    return this.#mail.received.map(({ mail }) => /<form-(.+)@/.exec(mail.messageId ?? "")?.[1] ?? "");
  }

  get recipients(): string[] {
    return this.#mail.received.flatMap(({ to }) => to);
  }

  async startGateway(): Promise<void> {
    this.gateway = await startGatewayProcess({ ...this.#env, HOST: "127.0.0.1", PORT: "0" });
  }

  startWorker(): void {
    this.#worker = spawnCli(["worker"], { env: { ...this.#env, ...mailEnv(this.#mail.url) } });
  }

  /** Runs a worker until no email waits. */
  async sendAllEmails(): Promise<void> {
    this.startWorker();
    await expect
      .poll(() => runSql(this.databaseUrl, "SELECT FROM notifications WHERE state <> 'sent'"), {
        interval: 100,
      })
      .toEqual([]);
    await this.#worker?.stop();
  }

  async stop(): Promise<void> {
    await Promise.all([this.gateway?.process.stop(), this.#worker?.stopOrKill()]);
  }

  /** Runs a command and returns its output. Throws if it fails. */
  async guestForms(...args: string[]): Promise<string> {
    const { stdout, stderr, code } = await runCli(args, { env: this.#env });
    if (code !== 0) throw new Error(`guest-forms ${args.join(" ")} failed: ${stderr}`);
    return stdout;
  }

  /** Runs the block of gateway/docs/operating.md that contains `text`, changed by `edit`, and returns its output. */
  runBlock(text: string, { edit = (block: string) => block } = {}): Promise<string> {
    return runFromPage(operatingBlock(text), (script) => this.#runOnMachine(edit(script)));
  }

  /** Replaces the date of a backup's name in a command of the page by that of the backup that was made. */
  withBackup(command: string, name: "base" | "guest_forms"): string {
    const date = `${name}-2026-11-21`;
    expect(command).toContain(date);
    const made = readdirSync(join(this.#postgres.folder, "backups")).find((each) => each.startsWith(name));
    return command.replaceAll(date, `${made?.replace(/\.dump$/, "")}`);
  }

  /** Runs the inline command of gateway/docs/operating.md that contains `text`. */
  runInline(text: string): Promise<string> {
    return runFromPage(operatingInline(text), (script) => this.#runOnMachine(script));
  }

  // Commands of PostgreSQL run as the user who owns it. Folders of the page are below a temporary one.
  async #runOnMachine(script: string): Promise<string> {
    const { folder, port, binFolder } = this.#postgres;
    const isOwn = script.startsWith("guest-forms");
    const { stdout } = await runScript(script, {
      env: { ...this.#env, PGHOST: "127.0.0.1", PGPORT: String(port), PGUSER: "postgres" },
      cwd: isOwn ? this.#folder : folder,
      binFolders: [isOwn ? this.#folder : binFolder],
      replace: { "/var/backups": join(folder, "backups"), "/var/lib/postgresql": folder },
      commandPrefix: isOwn ? [] : AS_POSTGRES,
    });
    return stdout;
  }

  async #addHolders(): Promise<void> {
    const services = await openTestServices({ DATABASE_URL: this.databaseUrl });
    for (let count = 0; count < 4; count++) {
      const { id: userId } = await makeUser(services);
      const listings = [await makeListing(services, userId), await makeListing(services, userId)];
      const { key, id: keyId } = await asOperator(services).keys.issue({ userId, mode: "READ_WRITE" });
      const listingIds = listings.map(({ id }) => id);
      const shared = this.holders[0]?.listingIds[0];
      const role = ([undefined, "WRITER", "READER"] as const)[count];
      if (shared && role) await setRole(services, shared, userId, role);
      this.holders.push({ key, keyId, listingIds });
    }
  }

  /** Creates forms of the first two holders, with and without addresses, and updates some. Returns the creates. */
  async addForms(): Promise<Create[]> {
    const creates: Create[] = [];
    for (let count = 0; count < FORMS_PER_HOLDER; count++) {
      for (const { key, listingIds } of this.holders.slice(0, 2)) {
        const listingId = listingIds[count % 2] ?? "";
        const address = count % 3 === 0 ? `guest-${count}@example.com` : null;
        const create = await createForm(this.url, key, listingId, address);
        if (count % 4 === 0)
          await updateForm(this.url, create, count % 8 === 0 ? "updated@example.com" : undefined);
        creates.push(create);
      }
    }
    return creates;
  }

  /** All pages of the lists of these holders, by default all. */
  async readLists(holders = this.holders): Promise<Page[]> {
    const lists = [];
    for (const { key, listingIds } of holders) lists.push(await readAllLists(this.url, key, listingIds));
    return lists.flat();
  }

  /** Ids of these forms that have an address in the database. */
  async withAddress(creates: Create[]): Promise<string[]> {
    const rows = await runSql<{ id: string }>(
      this.databaseUrl,
      "SELECT id FROM forms WHERE guest_email IS NOT NULL AND id = ANY ($1)",
      [creates.map(({ form }) => form.id)],
    );
    return rows.map(({ id }) => id);
  }
}
