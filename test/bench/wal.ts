import type pg from "pg";
import { openFilled, undoCreates } from "./fill.js";
import { headersOf, withSerial } from "./load.js";
import { createOperations, type Operation } from "./operations.js";
import type { Options } from "./options.js";
import { markdownTable, progress } from "./report.js";
import { type Server, startServer } from "./servers.js";

// What creates write to the WAL, which replicas and archives receive too. Right after a checkpoint, Postgres writes each page whole
// that changes for the first time.

const CREATES = 2_000;
const IN_FLIGHT = 16;

const WRITTEN = `
  SELECT sum(count)::int AS records, sum(combined_size)::float8 AS bytes, sum(fpi_size)::float8 AS images,
    (sum(count) FILTER (WHERE "resource_manager/record_type" LIKE 'Btree/INSERT%'))::int AS entries
  FROM pg_get_wal_stats($1::pg_lsn, $2::pg_lsn, true)`;

let serial = 0;

async function sendCreates({ url }: Server, { requests }: Operation): Promise<void> {
  let remaining = CREATES;
  const send = async () => {
    while (remaining-- > 0) {
      const number = ++serial;
      const request = withSerial(requests[number % requests.length] ?? { target: "", key: "" }, number);
      const options = { method: "POST", headers: headersOf(request), body: request.body ?? "" };
      const response = await fetch(url + request.target, options);
      if (response.status !== 201) throw new Error(`A create got ${response.status}.`);
      await response.arrayBuffer();
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, send));
}

/** Measures the WAL of creates right after a checkpoint, and of others after them. */
export async function measureWal({ forms }: Options): Promise<boolean> {
  const { client, url } = await openFilled(forms);
  await client.query("CREATE EXTENSION IF NOT EXISTS pg_walinspect");
  const server = await startServer("service", url);
  const create = (await createOperations(client)).find(({ id }) => id === "create");
  if (!create) throw new Error("There is no operation that creates.");
  await sendCreates(server, create);
  await client.query("CHECKPOINT");
  const rows: string[][] = [];
  for (const when of ["right after a checkpoint", "later"]) {
    progress(`Measuring: ${CREATES} creates ${when} …`);
    const start = await position(client);
    await sendCreates(server, create);
    const { records, bytes, images, entries } = (await client.query(WRITTEN, [start, await position(client)])).rows[0];
    rows.push([
      when,
      ...[bytes, images, records, entries].map((sum) => (sum / CREATES).toFixed(sum === entries ? 1 : 0)),
    ]);
  }
  await undoCreates(client);
  const head = [`${CREATES} creates, ${forms} forms`, "bytes each", "of these page images", "records", "index entries"];
  process.stdout.write(markdownTable([head, ...rows]));
  return true;
}

async function position(client: pg.Client): Promise<string> {
  return (await client.query("SELECT pg_current_wal_insert_lsn() AS lsn")).rows[0].lsn;
}
