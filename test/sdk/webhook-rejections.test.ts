import { randomBytes } from "node:crypto";
import { afterEach, describe, expect, test, vi } from "vitest";
import {
  signWebhook,
  unwrapWebhook,
  type WebhookHeaders,
  type WebhookVerificationError,
} from "../../sdk/src/webhooks.js";
import { rejection } from "./setup.js";
import { EVENT, ID, makeSecret, rejected, SECRET } from "./signed-event.js";

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const secondsAgo = (seconds: number) => new Date(Date.now() - seconds * 1000);

describe("a request that is rejected", () => {
  test("a body, id or timestamp that was changed after signing is a bad signature", async () => {
    const { body, headers } = await signWebhook(EVENT, SECRET);
    const timestamp = String(Number(headers["webhook-timestamp"]) + 1);
    const changed: [string, WebhookHeaders][] = [
      [body.replace("SENT", "ACCEPTED"), headers],
      [`${body} `, headers],
      [JSON.stringify(JSON.parse(body), null, 2), headers],
      ["", headers],
      [body, { ...headers, "webhook-id": ID }],
      [body, { ...headers, "webhook-timestamp": timestamp }],
    ];
    for (const [sent, sentHeaders] of changed) {
      const error = await rejected(sent, sentHeaders, SECRET);
      expect(error).toMatchObject({ name: "WebhookVerificationError", reason: "bad_signature" });
      expect(error.message).toMatch(
        /^No signature of the webhook request matches\. Check that the secret .* reject it\.$/,
      );
    }
  });

  test("a request with another signature, or with none of version 1, is a bad signature", async () => {
    const { body, headers } = await signWebhook(EVENT, SECRET);
    const right = headers["webhook-signature"];
    const wrong = [
      `v1,${randomBytes(32).toString("base64")}`,
      right.slice(0, -8),
      right.replace("v1", "v2"),
      right.slice("v1,".length),
      "v1,",
      ",",
    ];
    for (const signature of wrong) {
      const error = await rejected(body, { ...headers, "webhook-signature": signature }, SECRET);
      expect(error.reason, signature).toBe("bad_signature");
    }
  });

  test("of a request with many signatures, at most eight are verified", async () => {
    const { body, headers } = await signWebhook(EVENT, SECRET);
    const wrong = (count: number) => `v1,${randomBytes(32).toString("base64")} `.repeat(count);
    const withWrong = (count: number) => ({
      ...headers,
      "webhook-signature": wrong(count) + headers["webhook-signature"],
    });
    expect(await unwrapWebhook(body, withWrong(7), SECRET)).toEqual(EVENT);
    expect((await rejected(body, withWrong(8), SECRET)).reason).toBe("bad_signature");
  });

  test("a request without one of the three headers names those that are missing", async () => {
    const { body, headers } = await signWebhook(EVENT, SECRET);
    for (const name of ["webhook-id", "webhook-timestamp", "webhook-signature"]) {
      for (const value of [undefined, ""]) {
        const error = await rejected(body, { ...headers, [name]: value }, SECRET);
        expect(error.reason).toBe("missing_header");
        expect(error.message).toMatch(new RegExp(`^The webhook request has no ${name}\\. Check that your proxy`));
      }
    }
    const none = await rejected(body, new Headers(), SECRET);
    expect(none.message).toContain("no webhook-id, webhook-timestamp, webhook-signature.");
  });

  test("a timestamp that is not a number of seconds is a malformed header", async () => {
    const { body, headers } = await signWebhook(EVENT, SECRET);
    for (const timestamp of ["2027-07-01T13:00:00Z", "-5", "1e9", "17 17", "NaN", "1814446800.5"]) {
      const error = await rejected(body, { ...headers, "webhook-timestamp": timestamp }, SECRET);
      expect(error.reason, timestamp).toBe("malformed_header");
    }
  });

  test("a request is accepted up to 300 s after and before it was sent, unless toleranceSeconds is set", async () => {
    vi.useFakeTimers({ now: new Date("2027-07-01T13:00:00.000Z"), toFake: ["Date"] });
    const reasonOf = async (age: number, toleranceSeconds?: number) => {
      const { body, headers } = await signWebhook(EVENT, SECRET, { timestamp: secondsAgo(age) });
      const call = unwrapWebhook(body, headers, SECRET, { toleranceSeconds });
      return call.then(
        () => "accepted",
        (error: WebhookVerificationError) => [error.reason, error.message.split(".")[0]],
      );
    };
    const sent = (when: string, limit = 300) =>
      `The webhook request was sent ${when}, and at most ${limit} s are tolerated`;
    expect(await reasonOf(300)).toBe("accepted");
    expect(await reasonOf(301)).toEqual(["too_old", sent("301 s ago")]);
    expect(await reasonOf(-300)).toBe("accepted");
    expect(await reasonOf(-301)).toEqual(["too_new", sent("301 s in the future")]);
    expect(await reasonOf(11, 10)).toEqual(["too_old", sent("11 s ago", 10)]);
    expect(await reasonOf(1, 0)).toEqual(["too_old", sent("1 s ago", 0)]);
    expect(await reasonOf(1_000_000, Number.POSITIVE_INFINITY)).toBe("accepted");
  });

  test("an old request with a wrong signature is a bad signature, so `too_old` proves that the service sent it", async () => {
    const { body, headers } = await signWebhook(EVENT, SECRET, { timestamp: secondsAgo(1000) });
    expect((await rejected(body, headers, makeSecret())).reason).toBe("bad_signature");
  });

  test("a signed body that is not JSON of an object with a type is malformed", async () => {
    for (const text of ["", "8a0e2f3c", "null", "[]", '"form.created"', "{}", '{"type":5}', '{"type":"form.created"']) {
      const { body, headers } = await signWebhook(text, SECRET);
      const error = await rejected(body, headers, SECRET);
      expect(error.reason, text).toBe("malformed_body");
    }
  });

  test("a body of more than 1 MB is rejected before its signature is verified", async () => {
    const { body, headers } = await signWebhook("x".repeat(1_000_001), SECRET);
    const verify = vi.spyOn(crypto.subtle, "verify");
    expect((await rejected(body, headers, SECRET)).reason).toBe("malformed_body");
    expect(verify).not.toHaveBeenCalled();
    verify.mockRestore();
  });

  test("the error as JSON has its name, message and reason", async () => {
    const { body, headers } = await signWebhook(EVENT, SECRET);
    const error = await rejection(unwrapWebhook(body, headers, makeSecret()));
    expect(JSON.parse(JSON.stringify(error))).toEqual({
      name: "WebhookVerificationError",
      message: expect.stringContaining("No signature"),
      reason: "bad_signature",
    });
  });
});
