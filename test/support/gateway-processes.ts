import { makeKey, makeListing, makeUser, openTestServices, TEST_SECRET } from "./factories.js";
import { type RunningProcess, spawnCli } from "./processes.js";

export type Fixture = Awaited<ReturnType<typeof makeFixture>>;

/**
 * Makes a key holder with a listing and a key, and the environment of the gateway processes that serve them. `databaseUrl`
 * is by default that of a new database. `settings` overrides variables of `env`.
 */
export async function makeFixture(databaseUrl?: string, settings: Record<string, string> = {}) {
  const services = await openTestServices(databaseUrl ? { DATABASE_URL: databaseUrl } : {});
  const { id: userId } = await makeUser(services);
  const listing = await makeListing(services, userId);
  const key = await makeKey(services, userId);
  const env: Record<string, string> = {
    DATABASE_URL: services.db.url,
    DATABASE_POOL_SIZE: "5",
    APP_SECRETS: TEST_SECRET,
    RATE_LIMIT_MAX: "1000000",
    BAD_KEY_LIMIT_MAX: "1000000",
    HOST: "127.0.0.1",
    PORT: "0",
    ...settings,
  };
  return { services, userId, listing, key, env };
}

/** A running `guest-forms serve`. */
export interface GatewayProcess {
  url: string;
  process: RunningProcess;
}

/** Starts `guest-forms serve --no-worker` with `args`. */
export async function startGatewayProcess(env: Record<string, string>, args: string[] = []): Promise<GatewayProcess> {
  const process = spawnCli(["serve", "--no-worker", ...args], { env });
  const [, url = ""] = await process.waitForLine(/^Listening on ([^;]+);/, 120_000);
  return { url, process };
}

export const startGatewayProcesses = (count: number, env: Record<string, string>) =>
  Promise.all(Array.from({ length: count }, () => startGatewayProcess(env)));

/** Counts the lines of a process's log that contain `text`, after the first `offset` characters. */
export const countLogLines = ({ process }: GatewayProcess, text: string, offset = 0) =>
  process.stderr
    .slice(offset)
    .split("\n")
    .filter((line) => line.includes(text)).length;
