import type { Services } from "../../server/context.js";
import type { Listing } from "../../server/listings/schema.js";
import { makeKey, makeListing, makeUser, openTestServices, TEST_SECRET, type TestKey } from "../factories.js";
import { type RunningProcess, spawnCli } from "../harness.js";

/** A holder with a listing and a key, and what a gateway process needs to serve them. */
export interface World {
  services: Services;
  userId: string;
  listing: Listing;
  key: TestKey;
  env: Record<string, string>;
}

export async function makeWorld(databaseUrl?: string): Promise<World> {
  const services = await openTestServices(databaseUrl ? { DATABASE_URL: databaseUrl } : {});
  // As where APP_SECRETS were set from the beginning: creates need not take turns for the sake of a second secret.
  await services.db.pool.query("DELETE FROM stored_secrets");
  const { id: userId } = await makeUser(services);
  const listing = await makeListing(services, userId);
  const key = await makeKey(services, userId);
  const env = {
    DATABASE_URL: services.db.url,
    DATABASE_POOL_SIZE: "5",
    APP_SECRETS: TEST_SECRET,
    RATE_LIMIT_MAX: "1000000",
    BAD_KEY_LIMIT_MAX: "1000000",
    HOST: "127.0.0.1",
    PORT: "0",
  };
  return { services, userId, listing, key, env };
}

/** One `guest-forms serve`. */
export interface Host {
  url: string;
  process: RunningProcess;
}

/** Starts the real command; `args` are added to its own, `within` says where it runs. */
export async function startHost(
  env: Record<string, string>,
  args: string[] = [],
  within: string[] = [],
): Promise<Host> {
  const process = spawnCli(["serve", "--no-worker", ...args], { env, commandPrefix: within });
  const [, url = ""] = await process.waitForLine(/^Listening on ([^;]+);/, 45_000);
  return { url, process };
}

/** Several of them, side by side. */
export const startHosts = (count: number, env: Record<string, string>) =>
  Promise.all(Array.from({ length: count }, () => startHost(env)));

/** How many lines of a process's log say that, from an offset on. */
export const linesWith = ({ process }: Host, text: string, from = 0) =>
  process.stderr
    .slice(from)
    .split("\n")
    .filter((line) => line.includes(text)).length;
