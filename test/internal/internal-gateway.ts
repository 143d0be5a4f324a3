import { createTRPCClient, httpLink, TRPCClientError } from "@trpc/client";
import type { AppRouter } from "../../server/router.js";
import { startTestGateway } from "../support/gateway.js";
import { spawnCli } from "../support/processes.js";

export const TOKEN = "an-internal-token-for-tests-of-more-than-32-characters";

export const GUEST_TOKEN = "a-guest-token-for-tests-of-more-than-32-characters";

/** Starts the real gateway with its internal port, both on free ports. Returns the URL of the internal port. */
export async function startInternalGateway(settings: Record<string, string | number> = {}) {
  const gateway = await startTestGateway({ INTERNAL_TOKEN: TOKEN, INTERNAL_PORT: 0, ...settings });
  gateway.forbidInLog(TOKEN);
  const line = gateway.log.find(({ msg }) => msg === "listening for internal tools");
  return { url: String(line?.url), gateway };
}

/** Starts `guest-forms serve` with its internal port, both on free ports. */
export async function spawnInternalGateway(args: string[], env: Record<string, string>) {
  const service = spawnCli(["serve", "--json", ...args], {
    env: { PORT: "0", INTERNAL_TOKEN: TOKEN, INTERNAL_PORT: "0", ...env },
  });
  const [, text = ""] = await service.waitForLine(/^(\{"url".+\})$/, 60_000);
  const [, url = ""] = await service.waitForLine(/"url":"([^"]+)".*"msg":"listening for internal tools"/);
  return { url, publicUrl: JSON.parse(text).url, service };
}

/** tRPC's client, as the operator or on behalf of a user. */
export function createInternalClient(
  url: string,
  { userId, headers }: { userId?: string; headers?: Record<string, string> } = {},
) {
  const link = httpLink({
    url: `${url}/trpc`,
    headers: { Authorization: `Bearer ${TOKEN}`, ...(userId && { "X-User-Id": userId }), ...headers },
  });
  return createTRPCClient<AppRouter>({ links: [link] });
}

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
