import { randomBytes } from "node:crypto";
import { expect } from "vitest";
import document from "../../gateway/openapi/openapi.json" with { type: "json" };
import { GuestFormsError } from "../../sdk/src/index.js";
import { type FormStatusChangedEvent, unwrapWebhook, WebhookVerificationError } from "../../sdk/src/webhooks.js";
import { rejection } from "./setup.js";

export const makeSecret = (bytes = 32) => `whsec_${randomBytes(bytes).toString("base64")}`;

export const SECRET = makeSecret();

export const EVENT = document.webhooks["form.status_changed"].post.requestBody.content["application/json"]
  .example as FormStatusChangedEvent;

export const ID = "5f0d0a3c-7b1e-4f0e-9a61-0d3c0b8e2a17";

/** The error of a request that must be rejected. */
export async function rejected(...[body, headers, secrets, options]: Parameters<typeof unwrapWebhook>) {
  const error = await rejection(unwrapWebhook(body, headers, secrets, options));
  expect(error).toBeInstanceOf(GuestFormsError);
  const { name, message } = error as Error;
  const reason = error instanceof WebhookVerificationError ? error.reason : undefined;
  for (const secret of [secrets].flat()) {
    if (secret?.length > 8) expect(JSON.stringify(error) + message, "the secret").not.toContain(secret.slice(8));
  }
  expect(message, "the body").not.toContain("8a0e2f3c");
  return { name, message, reason };
}
