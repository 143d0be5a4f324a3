import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import pg from "pg";
import { beforeAll, expect, test } from "vitest";
import { sendCreate, uniqueCreate } from "../faults/creates.js";
import { END_SESSIONS, PostgresService } from "../faults/postgres-service.js";
import { describeInvalidResponse } from "../faults/postgres-traffic.js";
import { sendRequest, type TimedResponse } from "../support/http-client.js";
import { runSql } from "../support/run-sql.js";

/** Pino's log levels. */
const [WARN, ERROR] = [40, 50];

let service: PostgresService;
beforeAll(async () => {
  service = await PostgresService.start({ gateways: 1 });
});

/** Ends the outage. */
type Admit = () => Promise<unknown>;

/** Makes pg_hba.conf reject the service. */
async function rejectInAccessRules(): Promise<Admit> {
  const path = join(service.cluster.dataDir, "cluster/pg_hba.conf");
  const rules = await readFile(path, "utf8");
  const admin = await openAdmin();
  const setRules = async (text: string) => {
    await writeFile(path, text);
    await admin.query("SELECT pg_reload_conf()");
  };
  await setRules("host all all all reject\n");
  await admin.query(END_SESSIONS);
  return async () => {
    await setRules(rules);
    await admin.end();
  };
}

/** Starts a smart shutdown, in which Postgres waits for this session to end. */
async function shutDownSlowly(): Promise<Admit> {
  const { cluster } = service;
  const admin = await openAdmin();
  const stopped = cluster.stop("SIGTERM");
  await expect.poll(() => runSql(cluster.url, "SELECT").catch((error) => error.code)).toBe("57P03");
  await admin.query(END_SESSIONS);
  return async () => {
    await admin.end();
    await stopped;
    await cluster.start();
  };
}

/** Makes Postgres refuse the service with a SQLSTATE that no version has. */
async function refuseWithUnknownCode(): Promise<Admit> {
  const admin = await openAdmin();
  await admin.query(`
    CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
      IF current_setting('application_name') = 'guest-forms' THEN
        RAISE EXCEPTION 'refused' USING ERRCODE = 'ZZ999';
      END IF;
    END $$;
    CREATE EVENT TRIGGER refuse ON login EXECUTE FUNCTION refuse()`);
  await admin.query(END_SESSIONS);
  return async () => {
    await admin.query("DROP FUNCTION refuse CASCADE");
    await admin.end();
  };
}

async function openAdmin(): Promise<pg.Client> {
  const admin = new pg.Client({ connectionString: service.cluster.url });
  admin.on("error", () => {});
  await admin.connect();
  return admin;
}

const list = (): Promise<TimedResponse> =>
  sendRequest(`${service.gateway(0).url}/v1/forms`, service.fixture.key.key);
const create = (): Promise<TimedResponse> =>
  sendCreate(service.fixture, service.gateway(0), uniqueCreate(service.fixture, { hasKey: true }));

/** The log line that says why the request got 503. */
function reasonLoggedFor({ headers }: TimedResponse): { level: number; reason: string } | undefined {
  const id = String(headers["x-correlation-id"]);
  const lines = service
    .gateway(0)
    .process.stderr.split("\n")
    .filter((line) => line.includes(id));
  return lines.map((line) => JSON.parse(line)).find(({ msg }) => msg === "unavailable");
}

test.each([
  { why: "pg_hba.conf (28000)", refuse: rejectInAccessRules, level: ERROR, reason: /pg_hba\.conf rejects/ },
  { why: "a shutdown (57P03)", refuse: shutDownSlowly, level: WARN, reason: /system is shutting down/ },
  { why: "a SQLSTATE of the future", refuse: refuseWithUnknownCode, level: WARN, reason: /refused/ },
])(
  "while Postgres refuses connections because of $why, reads and creates get 503 with Retry-After, the reason is logged at level $level, and requests succeed again afterwards without a restart",
  async ({ refuse, level, reason }) => {
    expect([(await list()).status, (await create()).status]).toEqual([200, 201]);
    const admit = await refuse();
    // Until the gateway has lost its open connections.
    await expect.poll(async () => reasonLoggedFor(await list())?.reason).toMatch(reason);
    const responses = [await list(), await create(), await list()];
    expect(responses.map(({ status }) => status)).toEqual([503, 503, 503]);
    expect(responses.flatMap((response) => describeInvalidResponse(response) ?? [])).toEqual([]);
    for (const response of responses) {
      const expected = { level, reason: expect.stringMatching(reason) };
      await expect.poll(() => reasonLoggedFor(response)).toMatchObject(expected);
    }
    await admit();
    await expect.poll(async () => (await create()).status).toBe(201);
    expect((await list()).status).toBe(200);
    service.expectNoExits();
  },
);
