import { expect } from "vitest";
import type { Fixture } from "../fleet/gateway-processes.js";
import { spawnCli } from "../harness.js";
import { mailEnv, openMailServer } from "../server/mail-server.js";

/** The sorted Message-IDs of one email per form that has a guest address. */
export async function expectedMessageIds({ services }: Fixture): Promise<string[]> {
  const { rows } = await services.db.pool.query<{ id: string }>(
    "SELECT id FROM forms WHERE guest_email IS NOT NULL",
  );
  return rows.map(({ id }) => messageIdOf(id)).sort();
}

export const messageIdOf = (formId: string) => `<form-${formId}@guest-forms>`;

export const hasPendingNotifications = async ({ services }: Fixture): Promise<boolean> => {
  const { rows } = await services.db.pool.query("SELECT FROM notifications WHERE state <> 'sent' LIMIT 1");
  return rows.length > 0;
};

/** Runs a worker until no notification is pending, asserts that one email per form arrived, and returns the count. */
export async function expectOneEmailPerForm(fixture: Fixture): Promise<number> {
  const mailServer = await openMailServer();
  const worker = spawnCli(["worker"], { env: { ...fixture.env, ...mailEnv(mailServer.url) } });
  await expect.poll(() => hasPendingNotifications(fixture), { timeout: 120_000, interval: 100 }).toBe(false);
  await worker.stopOrKill();
  const arrived = mailServer.received.map(({ mail }) => mail.messageId ?? "");
  expect(arrived.sort()).toEqual(await expectedMessageIds(fixture));
  return arrived.length;
}
