import { createTRPCClient, httpBatchLink, httpLink, TRPCClientError } from "@trpc/client";
import { pino } from "pino";
import { afterAll } from "vitest";
import { startGateway } from "../../gateway/serve.js";
import { readSettings } from "../../server/config.js";
import type { AppRouter } from "../../server/router.js";
import { createTestDatabase, freePort } from "../harness.js";

export const TOKEN = "an-internal-token-for-tests-of-more-than-32-characters";

export interface InternalGateway {
  /** URL of the internal port. */
  url: string;
  publicUrl: string;
  databaseUrl: string;
  /** Log lines, as text. */
  lines: string[];
  stop(): Promise<void>;
}

const running: InternalGateway[] = [];

afterAll(async () => {
  await Promise.all(running.map((internalGateway) => internalGateway.stop()));
});

/** Starts the real gateway with its internal port, both on free ports. */
export async function startInternalGateway(env: Record<string, string> = {}): Promise<InternalGateway> {
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
  const internalGateway = {
    url: `http://127.0.0.1:${internalPort}`,
    publicUrl: gateway.url,
    databaseUrl,
    lines,
    stop: () => {
      stopped ??= gateway.stop();
      return stopped;
    },
  };
  running.push(internalGateway);
  return internalGateway;
}

/** tRPC's client, as the operator or on behalf of a user. `batch` sends the calls of one tick together. */
export function createInternalClient(
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

export type Client = ReturnType<typeof createInternalClient>;

/** Returns the error of a call as the client receives it. */
export async function errorOf(call: Promise<unknown>) {
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

/** Creates a listing of the user; `fields` override the defaults. */
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
