import { expect } from "vitest";
import type { World } from "../fleet/fleet.js";
import { spawnCli } from "../harness.js";
import { mailEnv, openMailServer } from "../server/mail-server.js";

/** One message of each form in the database that has a guest, by Message-ID, sorted. */
export async function expectedMessages({ services }: World): Promise<string[]> {
  const { rows } = await services.db.pool.query<{ id: string }>(
    "SELECT id FROM forms WHERE guest_email IS NOT NULL",
  );
  return rows.map(({ id }) => messageIdOf(id)).sort();
}

export const messageIdOf = (formId: string) => `<form-${formId}@guest-forms>`;

export const hasJobs = async ({ services }: World): Promise<boolean> => {
  const { rows } = await services.db.pool.query("SELECT FROM notifications WHERE state <> 'sent' LIMIT 1");
  return rows.length > 0;
};

/** Starts `guest-forms worker`, lets it send all that waits, and holds what arrived to one message a form. */
export async function expectOneMessageEach(world: World): Promise<number> {
  const office = await openMailServer();
  const worker = spawnCli(["worker"], { env: { ...world.env, ...mailEnv(office.url) } });
  await expect.poll(() => hasJobs(world), { timeout: 120_000, interval: 100 }).toBe(false);
  await worker.stopOrKill();
  const arrived = office.received.map(({ mail }) => mail.messageId ?? "");
  expect(arrived.sort()).toEqual(await expectedMessages(world));
  return arrived.length;
}
