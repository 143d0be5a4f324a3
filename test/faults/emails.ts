import { expect } from "vitest";
import type { Fixture } from "../support/gateway-processes.js";
import { mailEnv, openMailServer } from "../support/mail-server.js";
import { spawnCli } from "../support/processes.js";

export const messageIdOf = (formId: string) => `<form-${formId}@guest-forms>`;

export async function countPendingNotifications({ services }: Fixture): Promise<number> {
  const { rows } = await services.db.pool.query("SELECT FROM notifications WHERE state <> 'sent'");
  return rows.length;
}

/** Runs a worker until no notification is pending; asserts that it sent one email for each of these forms, and no other. */
export async function expectOneEmailPerForm(fixture: Fixture, formIds: Iterable<string>): Promise<void> {
  const mailServer = await openMailServer();
  const worker = spawnCli(["worker"], { env: { ...fixture.env, ...mailEnv(mailServer.url) } });
  await expect.poll(() => countPendingNotifications(fixture), { timeout: 120_000 }).toBe(0);
  await worker.stopOrKill();
  const arrived = mailServer.received.map(({ mail }) => mail.messageId ?? "");
  expect(arrived.sort()).toEqual([...formIds].map(messageIdOf).sort());
}
