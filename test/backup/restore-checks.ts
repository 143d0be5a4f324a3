import { expect } from "vitest";
import { sendRequest } from "../support/http-client.js";
import type { BackedUpService } from "./backed-up-service.js";
import { type Create, createForm, type Page, postForm, updateForm } from "./guest-data.js";

const ERASED_BEFORE = "erased-before@example.com";
const ERASED_LATER = "erased-later@example.com";

/** What a backup must bring back. */
export interface StateAtBackup {
  creates: Create[];
  /** Forms whose address is erased after the backup; the email for the last one is unsent at the time of the backup. */
  erasedLater: Create[];
  /** A form whose email is unsent at the time of the backup. */
  unsent: Create;
  pages: Page[];
}

const erase = (service: BackedUpService, address: string) =>
  service.runBlock("guest-forms people erase", {
    edit: (block) => block.replace("guest@example.com", address),
  });

/** Creates and updates forms, sends most emails, and erases an address. */
export async function prepareState(service: BackedUpService): Promise<StateAtBackup> {
  const creates = await service.addForms();
  const [{ key, listingIds } = { key: "", listingIds: [] }] = service.holders;
  const create = (address: string) => createForm(service.url, key, listingIds[1] ?? "", address);
  const erasedBefore = await create(ERASED_BEFORE);
  const erasedLater = [await create(ERASED_LATER)];
  await service.sendAllEmails();
  await erase(service, ERASED_BEFORE);
  erasedLater.push(await create(ERASED_LATER));
  const unsent = await create("waiting@example.com");
  creates.push(erasedBefore, ...erasedLater, unsent);
  return { creates, erasedLater, unsent, pages: await service.readLists(service.holders.slice(0, 3)) };
}

/** What was acknowledged after the backup, and is lost. */
export interface Lost {
  create: Create;
  /** A cursor behind the lost forms. */
  cursor: string;
}

/** Changes what a restore brings back: creates and updates forms, erases an address, sends emails and revokes a key. */
export async function changeAfterBackup(service: BackedUpService, { unsent }: StateAtBackup): Promise<Lost> {
  const [first, , last] = service.holders;
  if (!first || !last) throw new Error("There are no holders.");
  await erase(service, ERASED_LATER);
  await service.sendAllEmails();
  expect(service.emailedForms.at(-1)).toBe(unsent.form.id);
  await updateForm(service.url, unsent, "updated-later@example.com");
  const create = () => createForm(service.url, first.key, first.listingIds[1] ?? "", null);
  const lost = await create();
  for (let count = 0; count < 8; count++) await create();
  await service.guestForms("keys", "revoke", last.keyId);
  const pages = await service.readLists([first]);
  const cursor = pages.findLast(({ path }) => path.startsWith("/v1/forms "))?.path.split(" ")[1] ?? "";
  return { create: lost, cursor };
}

/**
 * Starts on the restored database, as gateway/docs/operating.md says, and expects everything that was there at the backup, the erasure
 * repeated, and nothing of what came later.
 */
export async function checkRestoredService(
  service: BackedUpService,
  state: StateAtBackup,
  lost: Lost,
): Promise<void> {
  const { creates, erasedLater, unsent } = state;
  const emailedBefore = service.emailedForms.length;
  expect(await service.withAddress(erasedLater)).toHaveLength(erasedLater.length);
  const reapplied = await service.runBlock("guest-forms people reapply");
  expect(reapplied).toMatch(/^forms: +2$/m);
  expect(reapplied).toMatch(
    /^notifications: +1\nunreadable: +0\napplied: +1\nknown: +1\nunknownSecret: +0$/m,
  );
  expect(await service.withAddress(erasedLater)).toEqual([]);
  const waiting = await service.runBlock("guest-forms notifications");
  expect(waiting.trim().split("\n")).toEqual([expect.any(String), expect.stringContaining(unsent.form.id)]);

  await service.startGateway();
  expect(await service.readLists(service.holders.slice(0, 3))).toEqual(state.pages);
  const atEnd = await sendRequest(`${service.url}/v1/forms?cursor=${lost.cursor}`, unsent.key);
  expect(atEnd).toMatchObject({ status: 200, json: { items: [], nextCursor: null } });
  for (const create of creates) {
    const replay = await postForm(service.url, create);
    expect(replay).toMatchObject({ status: 201, json: create.form });
    expect(replay.headers["idempotent-replayed"]).toBe("true");
  }
  const repeated = await postForm(service.url, lost.create);
  expect(repeated.status).toBe(201);
  expect(repeated.headers["idempotent-replayed"]).toBeUndefined();

  await service.sendAllEmails();
  expect(service.emailedForms.slice(emailedBefore)).toEqual([unsent.form.id]);
  expect(service.recipients.slice(emailedBefore)).toEqual(["waiting@example.com"]);
  await checkRevokedKey(service);
}

/** A key that was revoked after the backup is valid again, until it is revoked again. */
async function checkRevokedKey(service: BackedUpService): Promise<void> {
  const { key = "", keyId = "" } = service.holders[2] ?? {};
  const status = async () => (await sendRequest(`${service.url}/v1/listings`, key)).status;
  expect(await status()).toBe(200);
  await service.guestForms("keys", "revoke", keyId);
  await expect.poll(status).toBe(401);
}
