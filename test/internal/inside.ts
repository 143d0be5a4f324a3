import { createTRPCClient, httpBatchLink, httpLink, TRPCClientError } from "@trpc/client";
import { pino } from "pino";
import { afterAll } from "vitest";
import { startGateway } from "../../gateway/serve.js";
import { readSettings } from "../../server/config.js";
import type { AppRouter } from "../../server/router.js";
import { createTestDatabase, freePort } from "../harness.js";

export const TOKEN = "an-internal-token-for-tests-of-more-than-32-characters";

export interface Inside {
  /** The internal port. */
  url: string;
  publicUrl: string;
  databaseUrl: string;
  /** Every line that was logged, as text. */
  lines: string[];
  stop(): Promise<void>;
}

const running: Inside[] = [];

afterAll(async () => {
  await Promise.all(running.map((inside) => inside.stop()));
});

/** The real gateway with its internal port, both on free ports. */
export async function startInside(env: Record<string, string> = {}): Promise<Inside> {
  const databaseUrl = env.DATABASE_URL ?? (await createTestDatabase()).url;
  const internalPort = await freePort();
  const settings = readSettings({
    PORT: "0",
    DATABASE_CONNECT_TIMEOUT_MS: "10000",
    DATABASE_STATEMENT_TIMEOUT_MS: "10000",
    RATE_LIMIT_MAX: "1000000",
    INTERNAL_TOKEN: TOKEN,
    INTERNAL_PORT: String(internalPort),
    ...env,
    DATABASE_URL: databaseUrl,
  });
  const lines: string[] = [];
  const log = pino({ level: "trace", base: null }, { write: (line: string) => void lines.push(line) });
  const gateway = await startGateway({ settings, log, worker: false });
  let stopped: Promise<void> | undefined;
  const inside = {
    url: `http://127.0.0.1:${internalPort}`,
    publicUrl: gateway.url,
    databaseUrl,
    lines,
    stop: () => {
      stopped ??= gateway.stop();
      return stopped;
    },
  };
  running.push(inside);
  return inside;
}

/** tRPC's own client, as the operator or in the name of a user; `batch` sends calls of one tick together. */
export function clientOf(
  url: string,
  {
    userId,
    headers,
    batch = false,
  }: { userId?: string; headers?: Record<string, string>; batch?: boolean } = {},
) {
  const options = {
    url: `${url}/trpc`,
    headers: { Authorization: `Bearer ${TOKEN}`, ...(userId && { "X-User-Id": userId }), ...headers },
  };
  return createTRPCClient<AppRouter>({ links: [batch ? httpBatchLink(options) : httpLink(options)] });
}

export type Client = ReturnType<typeof clientOf>;

/** What the client was told of a failure. */
export async function failure(call: Promise<unknown>) {
  const outcome = await call.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  );
  if (!("error" in outcome)) throw new Error(`did not fail: ${JSON.stringify(outcome.value)}`);
  if (!(outcome.error instanceof TRPCClientError)) throw outcome.error;
  const { message, data } = outcome.error as TRPCClientError<AppRouter>;
  if (!data) throw outcome.error;
  return { message, ...data };
}

/** A listing of the user's, with these fields on top. */
export const addListing = (
  operator: Client,
  ownerId: string,
  fields: Partial<Parameters<Client["listings"]["create"]["mutate"]>[0]> = {},
) =>
  operator.listings.create.mutate({
    ownerId,
    title: "Loft by the canal",
    address: "Kanalweg 7",
    city: "Berlin",
    country: "Germany",
    zipCode: "10997",
    timezone: "Europe/Berlin",
    ...fields,
  });
