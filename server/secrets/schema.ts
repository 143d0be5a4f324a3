import { z } from "zod";
import { instantOut, uuid } from "../values.js";

export const statusInput = z.strictObject({});

/** What needs a secret. */
const secretUse = z.object({
  id: z.string(),
  /** In APP_SECRETS, from 1, the newest; null if it is not listed. */
  position: z.int().nullable(),
  /** Addresses encrypted with it. */
  addresses: z.int(),
  /** Webhook endpoints whose secrets are encrypted with it. */
  webhooks: z.int(),
  /** Creates whose retries are recognized with it, and whose stay is not over. */
  creates: z.int(),
  /** End of the last of these stays. */
  until: instantOut.nullable(),
});

export type SecretUse = z.infer<typeof secretUse>;

/** `unreadable`: addresses that no listed secret can decrypt; `unreadableWebhooks`: endpoints with such secrets. */
export const secretsStatus = z.object({
  secrets: z.array(secretUse),
  unreadable: z.int(),
  unreadableWebhooks: z.int(),
});

export type SecretsStatus = z.infer<typeof secretsStatus>;

export const outdatedInput = z.strictObject({});

/** `secrets`: ids, the newest first. Processes with the same secrets count once. */
export const outdated = z.object({
  processes: z.array(z.object({ secrets: z.array(z.string()), lastAt: instantOut })),
});

/** `after`: the last form of the batch before. Without it, the secrets of webhook endpoints are renewed too. */
export const reencryptInput = z.strictObject({ after: uuid.optional() });

/** `next`: `after` of the next batch, null after the last one. The others count what was renewed. */
export const renewed = z.object({ addresses: z.int(), creates: z.int(), webhooks: z.int(), next: z.guid().nullable() });

export type Renewed = z.infer<typeof renewed>;
