import { expect, test } from "vitest";
import { generateKey } from "../../server/keys/authenticator.js";
import { startTestGateway } from "../support/gateway.js";

test("X-Forwarded-For with TRUST_PROXY=0 is logged once, however many requests have it, and without it never", async () => {
  const gateway = await startTestGateway();
  const warnings = () => gateway.log.filter(({ msg }) => msg.includes("TRUST_PROXY"));
  const send = (headers: Record<string, string>) =>
    gateway.request({ path: "/v1/forms", key: generateKey("READ_ONLY"), headers });
  await send({});
  expect(warnings()).toEqual([]);
  for (let n = 0; n < 5; n++) await send({ "X-Forwarded-For": `203.0.113.${n}` });
  expect(warnings().map(({ level, msg }) => [level, msg])).toEqual([
    [
      40,
      expect.stringMatching(/all clients share one limit of bad keys\. .* set TRUST_PROXY to the number of proxies$/),
    ],
  ]);
  const trusting = await startTestGateway({ TRUST_PROXY: 1, DATABASE_URL: gateway.settings.DATABASE_URL ?? "" });
  await trusting.request({ path: "/livez", headers: { "X-Forwarded-For": "203.0.113.1" } });
  expect(trusting.log.filter(({ msg }) => msg.includes("TRUST_PROXY"))).toEqual([]);
});
