import { randomBytes } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { runInNewContext } from "node:vm";
import { Webhook } from "standardwebhooks";
import { afterEach, describe, expect, test, vi } from "vitest";
import { signWebhook, unwrapWebhook } from "../../sdk/src/webhooks.js";
import { newSecret, sign } from "../../server/webhooks/sign.js";
import { rejection } from "./setup.js";
import { EVENT, ID, makeSecret, rejected, SECRET } from "./signed-event.js";

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

describe("a request that the service has signed", () => {
  test("a webhook request that signWebhook has signed is unwrapped to its event", async () => {
    const { body, headers } = await signWebhook(EVENT, SECRET);
    expect(headers["webhook-id"]).toMatch(/^[\da-f-]{36}$/);
    expect(Math.abs(Number(headers["webhook-timestamp"]) - Date.now() / 1000)).toBeLessThan(5);
    expect(await unwrapWebhook(body, headers, SECRET)).toEqual(EVENT);
  });

  test("what the service signs is unwrapped, also while it rotates a secret", async () => {
    const [secret, previous] = [newSecret(), newSecret()];
    const body = JSON.stringify(EVENT);
    const timestamp = Math.floor(Date.now() / 1000);
    const common = { "webhook-id": ID, "webhook-timestamp": String(timestamp) };
    const headers = { ...common, "webhook-signature": sign([secret, previous], ID, timestamp, body) };
    for (const known of [secret, previous]) expect(await unwrapWebhook(body, headers, known)).toEqual(EVENT);
    const signed = await signWebhook(EVENT, [secret, previous], { id: ID, timestamp: new Date(timestamp * 1000) });
    expect(signed).toEqual({ body, headers: { "content-type": "application/json", ...headers } });
  });

  test("the body of a webhook request can be a string, a Buffer, other bytes, or bytes of another realm", async () => {
    const { body, headers } = await signWebhook(JSON.stringify({ ...EVENT, note: "Čajovna ✓" }), SECRET);
    const bytes = Buffer.from(body);
    const padded = new Uint8Array([0, ...bytes, 0]);
    const foreign = runInNewContext("Uint8Array.from(bytes)", { bytes: [...bytes] });
    expect(foreign instanceof Uint8Array).toBe(false);
    const bodies = [body, bytes, new Uint8Array(bytes), padded.subarray(1, -1), new Uint8Array(bytes).buffer];
    for (const raw of [...bodies, foreign, foreign.buffer]) {
      expect(await unwrapWebhook(raw, headers, SECRET)).toMatchObject({ type: EVENT.type, note: "Čajovna ✓" });
    }
  });

  test("the headers of a webhook request can be Headers, Node's, or any object, in any case", async () => {
    const { body, headers } = await signWebhook(EVENT, SECRET);
    const ofNode: IncomingHttpHeaders = { host: "example.com", "set-cookie": [], ...headers };
    const inCapitals = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toUpperCase(), value]));
    const inArrays = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value]]));
    const { headers: ofRequest } = new Request("http://127.0.0.1", { headers });
    const twice = { ...headers, "webhook-signature": [`v1,${"A".repeat(43)}=`, headers["webhook-signature"]] };
    for (const sent of [new Headers(headers), ofRequest, ofNode, inCapitals, inArrays, twice]) {
      expect(await unwrapWebhook(body, sent, SECRET)).toEqual(EVENT);
    }
  });

  test("while a secret is rotated, requests signed with the old one, the new one or both are accepted", async () => {
    const [before, after] = [makeSecret(), makeSecret(24)];
    for (const signers of [before, after, [before, after]]) {
      const { body, headers } = await signWebhook(EVENT, signers);
      expect(headers["webhook-signature"].split(" ")).toHaveLength([signers].flat().length);
      for (const secrets of [
        [before, after],
        [after, before],
      ]) {
        expect(await unwrapWebhook(body, headers, secrets)).toEqual(EVENT);
      }
    }
    const { body, headers } = await signWebhook(EVENT, [before, after]);
    for (const secret of [before, after]) expect(await unwrapWebhook(body, headers, secret)).toEqual(EVENT);
    expect(await rejected(body, headers, makeSecret())).toMatchObject({ reason: "bad_signature" });
  });

  test("signatures of other versions, and malformed ones, are ignored beside a right one", async () => {
    const { body, headers } = await signWebhook(EVENT, SECRET);
    const right = headers["webhook-signature"];
    const others = `v1a,${randomBytes(64).toString("base64")} v1,%%% v1, v2,AAAA`;
    for (const signature of [`${others} ${right}`, `${right} ${others}`, ` ${right}  `]) {
      expect(await unwrapWebhook(body, { ...headers, "webhook-signature": signature }, SECRET)).toEqual(EVENT);
    }
  });

  test("an event of a type that this version does not know is returned as it is", async () => {
    const event = { type: "listing.archived", timestamp: EVENT.timestamp, data: { listing: { id: ID } } };
    const { body, headers } = await signWebhook(JSON.stringify(event), SECRET);
    expect(await unwrapWebhook(body, headers, SECRET)).toEqual(event);
  });

  test("a secret that ends in a line break, as read from a file, is accepted", async () => {
    const { body, headers } = await signWebhook(EVENT, SECRET);
    expect(await unwrapWebhook(body, headers, `${SECRET}\n`)).toEqual(EVENT);
  });
});

describe("an invalid call", () => {
  test("a body that is already parsed is an error of the call, which says to pass the raw body", async () => {
    const { headers } = await signWebhook(EVENT, SECRET);
    for (const body of [EVENT, {}, undefined, null, [1, 2]]) {
      const error = await rejected(body as unknown as string, headers, SECRET);
      expect(error).toMatchObject({ name: "GuestFormsError", reason: undefined });
      expect(error.message).toMatch(/^The body of a webhook request must be raw: a string or bytes.*express\.raw/);
    }
  });

  test("a secret that is missing or malformed is an error of the call, which does not show it", async () => {
    const { body, headers } = await signWebhook(EVENT, SECRET);
    const malformed = ["grf_rw_0123456789abcdef", SECRET.slice(6), "whsec_", "whsec_%%%%%%%%%%%", "whsec_AAAAA"];
    for (const secret of [...malformed, [SECRET, "whsec_?????????"]]) {
      const error = await rejected(body, headers, secret);
      expect(error).toMatchObject({ name: "GuestFormsError", reason: undefined });
      expect(error.message).toMatch(
        /^The webhook secret is malformed\. Pass the secret that the endpoint was created with/,
      );
      expect(await rejection(signWebhook(EVENT, secret))).toMatchObject({ message: error.message });
    }
    for (const secrets of [undefined, "", [""], [], [undefined]] as string[]) {
      expect((await rejected(body, headers, secrets)).message).toMatch(
        /^(No webhook secret|The webhook secret is missing)\./,
      );
    }
  });

  test("an invalid tolerance or timestamp is an error of the call", async () => {
    const { body, headers } = await signWebhook(EVENT, SECRET);
    for (const toleranceSeconds of [Number.NaN, -1]) {
      const error = await rejected(body, headers, SECRET, { toleranceSeconds });
      expect(error).toMatchObject({
        name: "GuestFormsError",
        message: "toleranceSeconds must be a number, at least 0",
      });
    }
    const signed = signWebhook(EVENT, SECRET, { timestamp: new Date(Number.NaN) });
    expect(await rejection(signed)).toMatchObject({ message: "timestamp must be a Date since 1970" });
  });

  test("a runtime without Web Crypto is an error of the call", async () => {
    const { body, headers } = await signWebhook(EVENT, SECRET);
    for (const crypto of [undefined, { randomUUID: () => ID }]) {
      vi.stubGlobal("crypto", crypto);
      expect((await rejected(body, headers, SECRET)).message).toMatch(/^This runtime has no Web Crypto/);
    }
  });
});

describe("the standardwebhooks package", () => {
  test("unwrapWebhook verifies what standardwebhooks signs, for secrets of 24 to 64 bytes and bodies of any characters", async () => {
    for (const [bytes, note] of [
      [24, "plain"],
      [32, "Čajovna ✓ 𝄞"],
      [64, "\u0000\u2028\ud800"],
    ] as const) {
      const secret = makeSecret(bytes);
      const body = JSON.stringify({ ...EVENT, note });
      const timestamp = new Date();
      const headers = {
        "webhook-id": `msg_${bytes}`,
        "webhook-timestamp": String(Math.floor(timestamp.getTime() / 1000)),
        "webhook-signature": new Webhook(secret).sign(`msg_${bytes}`, timestamp, body),
      };
      expect(await unwrapWebhook(body, headers, secret)).toEqual({ ...EVENT, note });
      expect((await signWebhook(body, secret, { id: `msg_${bytes}`, timestamp })).headers).toMatchObject(headers);
    }
  });
});
