import { expect, test, vi } from "vitest";
import { listNotifications, openTestServices } from "../support/factories.js";
import { makeListingOwner } from "../support/listing-owner.js";
import { commandEnv, mailEnv, openMailServer } from "../support/mail-server.js";
import { spawnCli } from "../support/processes.js";

vi.setConfig({ testTimeout: 200_000 });

const WARNING = '"msg":"notifications wait: SMTP_URL is not set"';
/** Generous, because the machine may be loaded. */
const START_TIMEOUT_MS = 90_000;
const READY = /^Listening on ([^;]+);/;

const readReadyz = async (url: string) => {
  const response = await fetch(`${url}/readyz`);
  return { status: response.status, body: await response.json() };
};

test("without SMTP_URL a service is ready, /readyz reports that notifications wait, and each command warns once", async () => {
  const services = await openTestServices();
  const env = commandEnv(services, { NODE_ENV: "production" });
  const serve = spawnCli(["serve", "--workers", "1", "--port", "0"], { env });
  const [, url = ""] = await serve.waitForLine(READY, START_TIMEOUT_MS);
  const waits = { status: "ok", notifications: "waiting: SMTP_URL is not set" };
  expect(await readReadyz(url)).toEqual({ status: 200, body: waits });
  const worker = spawnCli(["worker", "--json"], { env });
  await worker.waitForLine(/^\{"concurrency":0\}$/, START_TIMEOUT_MS);
  const holder = await makeListingOwner(services);
  const { form } = await holder.create(holder.body);
  const ends = [await serve.stop(), await worker.stop()];
  for (const { stderr } of ends) {
    expect(stderr.split(WARNING)).toHaveLength(2);
    expect(stderr).not.toContain(form.publicId);
  }
  expect(await listNotifications(services)).toMatchObject([
    { formId: form.id, state: "waiting", attempts: 0 },
  ]);
});

test("serve with SMTP_URL or --no-worker is ready and does not report waiting notifications", async () => {
  const services = await openTestServices();
  const mailServer = await openMailServer();
  for (const [args, env] of [
    [[], mailEnv(mailServer.url)],
    [["--no-worker"], {}],
  ] as const) {
    const serve = spawnCli(["serve", "--port", "0", ...args], { env: commandEnv(services, env) });
    const [, url = ""] = await serve.waitForLine(READY, START_TIMEOUT_MS);
    expect(await readReadyz(url)).toEqual({ status: 200, body: { status: "ok" } });
    expect((await serve.stop()).stderr).not.toContain("notifications wait");
  }
});

test("SMTP_URL without SMTP_FROM and FORM_URL_TEMPLATE stops the start with one error per setting", async () => {
  const services = await openTestServices();
  const { stderr, code } = await spawnCli(["serve"], {
    env: commandEnv(services, { SMTP_URL: "smtp://mail.example.com" }),
  }).done;
  expect(code).toBe(1);
  expect(stderr).toMatch(/^error: SMTP_FROM is not set.*\nerror: FORM_URL_TEMPLATE is not set.*\n$/);
});
