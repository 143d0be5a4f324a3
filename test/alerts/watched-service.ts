import { spawnInternalGateway } from "../internal/internal-gateway.js";
import type { createRedis } from "../support/external-server.js";
import { type Fixture, makeFixture } from "../support/gateway-processes.js";
import { type Load, sendRequest, startLoad, type TimedResponse } from "../support/http-client.js";
import { type MailServer, mailEnv, startMailServer } from "../support/mail-server.js";
import type { RunningProcess } from "../support/processes.js";
import { uniqueStay } from "../support/stays.js";
import { TcpProxy } from "../support/tcp-proxy.js";

/** Short, so that a scrape during an outage takes less than the interval of the test's Prometheus. */
const TIMEOUTS = { DATABASE_CONNECT_TIMEOUT_MS: "1000", DATABASE_STATEMENT_TIMEOUT_MS: "800" };
export const BAD_KEY_LIMIT = 3;

/** The service with all its dependencies, each of which can be broken. */
export interface WatchedService {
  fixture: Fixture;
  /** Address of the internal port. */
  url: string;
  service: RunningProcess;
  database: TcpProxy;
  mailServer: MailServer;
  /** Creates a form with an email address, and returns the status. */
  create(): Promise<number>;
  get(path: string, key?: string): Promise<TimedResponse>;
  /** Requests lists and forms all the time. */
  load: Load;
}

/** Starts two gateway processes that send email, and requests. The caller stops `load`. */
export async function startWatchedService(redis: ReturnType<typeof createRedis>): Promise<WatchedService> {
  const fixture = await makeFixture();
  const database = await TcpProxy.start(fixture.services.db.url);
  const mailServer = await startMailServer();
  const { url, publicUrl, service } = await spawnInternalGateway(["--workers", "2"], {
    ...fixture.env,
    ...TIMEOUTS,
    ...mailEnv(mailServer.url),
    DATABASE_URL: database.url,
    REDIS_URL: `redis://127.0.0.1:${redis.port}`,
    BAD_KEY_LIMIT_MAX: String(BAD_KEY_LIMIT),
  });
  const { key } = fixture.key;
  const get = (path: string, sentKey = key) => sendRequest(publicUrl + path, sentKey);
  const create = async () => {
    const body = uniqueStay(fixture.listing.id, { guestEmail: "guest@example.com" });
    return (await sendRequest(`${publicUrl}/v1/forms`, key, { method: "POST", body })).status;
  };
  const load = startLoad(2, () => get("/v1/forms"), 50);
  return { fixture, url, service, database, mailServer, create, get, load };
}
