import { join } from "node:path";
import { expect, test } from "vitest";
import { describeWithBinary } from "../support/describe-with-binary.js";
import { messageIdOf, recipientsOf } from "../support/mail-server.js";
import { runSql } from "../support/run-sql.js";
import { type Acknowledged, type BackedUpService, type Page, startBackedUpService } from "./backed-up-service.js";

const FORMS = 30;
const ERASED_BEFORE = "erased-before@example.com";
const ERASED_LATER = "erased-later@example.com";

/** What a backup must bring back. */
interface StateAtBackup {
  creates: Acknowledged[];
  /** Forms whose address is erased after the backup; the email for the last one is unsent at the time of the backup. */
  erasedLater: Acknowledged[];
  /** A form whose email is unsent at the time of the backup. */
  unsent: Acknowledged;
  pages: Page[];
}

/** What was acknowledged after the backup, and is lost. */
interface Lost {
  create: Acknowledged;
  /** A cursor behind the lost forms. */
  cursor: string;
}

describeWithBinary("postgres:postgresql-15", "backups", (binary) => {
  test("a dump restores every form, replay and cursor of its moment; erasures are repeated before the service starts, and unsent emails are sent", async () => {
    const service = await startBackedUpService(binary);
    await addForms(service);
    const state = await prepareState(service);
    await service.runBlock("pg_dump");
    const lost = await changeAfterBackup(service, state);

    await service.stopGateway();
    await service.runBlock("createdb");
    service.useDatabase("guest_forms_restored");
    await service.runBlock("pg_restore");
    await checkRestoredService(service, state, lost);
  });

  test("a base backup with the archived write-ahead log restores what was acknowledged before a time between two creates, and nothing later; erasures are repeated", async () => {
    const service = await startBackedUpService(binary);
    const { postgres } = service;
    await addForms(service);
    await service.runBlock("pg_basebackup --checkpoint=fast --pgdata=");
    const state = await prepareState(service);
    await service.runInline("pg_create_restore_point");
    const [row] = await runSql<{ now: string }>(postgres.url(), "SELECT clock_timestamp()::text AS now");
    const lost = await changeAfterBackup(service, state);

    await service.stopGateway();
    await service.runBlock("pg_switch_wal");
    await postgres.stop();
    await service.runBlock("recovery.signal", { "2026-11-21 10:15:30+00": row?.now ?? "" });
    postgres.dataDir = join(postgres.folder, "restored");
    await service.runBlock("restored.log");
    const isInRecovery = () => runSql(postgres.url(), "SELECT pg_is_in_recovery() AS waits");
    await expect.poll(isInRecovery, { interval: 100 }).toEqual([{ waits: false }]);
    await checkRestoredService(service, state, lost);
  });
});

/** Creates forms with and without addresses, and updates some. */
async function addForms(service: BackedUpService): Promise<Acknowledged[]> {
  const creates: Acknowledged[] = [];
  for (let count = 0; count < FORMS; count++) {
    const create = await service.create(count % 3 === 0 ? `guest-${count}@example.com` : null);
    if (count % 4 === 0) await service.update(create, count % 8 === 0 ? "updated@example.com" : undefined);
    creates.push(create);
  }
  return creates;
}

const erase = (service: BackedUpService, address: string) =>
  service.runBlock("guest-forms people erase", { "guest@example.com": address });

/** Creates and updates forms, sends most emails, and erases an address. */
async function prepareState(service: BackedUpService): Promise<StateAtBackup> {
  const creates = await addForms(service);
  const erasedBefore = await service.create(ERASED_BEFORE);
  const erasedLater = [await service.create(ERASED_LATER)];
  await service.sendAllEmails();
  await erase(service, ERASED_BEFORE);
  erasedLater.push(await service.create(ERASED_LATER));
  const unsent = await service.create("waiting@example.com");
  creates.push(erasedBefore, ...erasedLater, unsent);
  return { creates, erasedLater, unsent, pages: await service.readList() };
}

/** Changes what a restore brings back: creates and updates forms, erases an address and sends emails. */
async function changeAfterBackup(service: BackedUpService, { unsent }: StateAtBackup): Promise<Lost> {
  await erase(service, ERASED_LATER);
  await service.sendAllEmails();
  expect(service.mailServer.received.at(-1)?.mail.messageId).toBe(messageIdOf(unsent.form.id));
  await service.update(unsent, "updated-later@example.com");
  const create = await service.create(null);
  for (let count = 0; count < 8; count++) await service.create(null);
  return { create, cursor: (await service.readList()).at(-2)?.nextCursor ?? "" };
}

/**
 * Starts on the restored database, as gateway/docs/operating.md says, and expects everything that was there at the backup,
 * the erasure repeated, and nothing of what came later.
 */
async function checkRestoredService(service: BackedUpService, state: StateAtBackup, lost: Lost): Promise<void> {
  const { creates, erasedLater, unsent } = state;
  const { received } = service.mailServer;
  const emailsBefore = received.length;
  expect(await service.countAddresses(erasedLater)).toBe(erasedLater.length);
  const reapplied = await service.runBlock("guest-forms people reapply");
  expect(reapplied).toMatch(/^forms: +2$/m);
  expect(reapplied).toMatch(/^emails: +1\nunreadable: +0\napplied: +1\nknown: +1\nunknownSecret: +0$/m);
  expect(await service.countAddresses(erasedLater)).toBe(0);
  const waiting = await service.runBlock("guest-forms emails list");
  expect(waiting.trim().split("\n")).toEqual([expect.any(String), expect.stringContaining(unsent.form.id)]);

  await service.startGateway();
  expect(await service.readList()).toEqual(state.pages);
  const atEnd = await service.request(`/v1/forms?cursor=${lost.cursor}`);
  expect(atEnd).toMatchObject({ status: 200, json: { items: [], nextCursor: null } });
  for (const create of creates) {
    const replay = await service.send(create);
    expect(replay).toMatchObject({ status: 201, json: create.form });
    expect(replay.headers["idempotent-replayed"]).toBe("true");
  }
  const repeated = await service.send(lost.create);
  expect(repeated.status).toBe(201);
  expect(repeated.headers["idempotent-replayed"]).toBeUndefined();

  await service.sendAllEmails();
  expect(received.slice(emailsBefore).map(({ mail }) => mail.messageId)).toEqual([messageIdOf(unsent.form.id)]);
  expect(recipientsOf(service.mailServer).slice(emailsBefore)).toEqual(["waiting@example.com"]);
}
