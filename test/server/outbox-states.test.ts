import { readFileSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { MOVES, nounOf, type OutboxTable } from "../../server/outbox/states.js";
import { addDeliveries, addEmails } from "../support/outbox-backlog.js";
import { setState } from "../support/outbox-queue.js";
import { openWebhookCore } from "../support/webhook-core.js";

const { services, owner, sql } = await openWebhookCore();

const TABLES: OutboxTable[] = ["emails", "webhook_deliveries"];

describe("server/outbox/states.ts", () => {
  test("names only statements that the files have, or the channels of the table for them", () => {
    const outbox = join(packageRoot(), "server", "outbox");
    const read = (file: string) => readFileSync(join(outbox, file), "utf8");
    for (const { table, statement, file } of MOVES) {
      const channel =
        table === "emails" ? ["../emails/channel.ts"] : ["../webhooks/channel.ts", "../webhooks/record.ts"];
      const text = file.startsWith("..") ? read(file) : [file, ...channel].map(read).join("\n");
      const named = text.replaceAll(/\$\{nounOf\(table\)\}/g, nounOf(table));
      expect(named, file).toMatch(new RegExp(`["\`]${statement}["\`]`));
    }
  });

  test("names only states of the enums, and moves from and to each of them", async () => {
    for (const [table, type] of [
      ["emails", "EmailState"],
      ["webhook_deliveries", "DeliveryState"],
    ]) {
      const [{ states }] = await sql(`SELECT enum_range(NULL::"${type}")::text[] AS states`);
      for (const end of ["from", "to"] as const) {
        const moves = MOVES.filter((move) => move.table === table).flatMap((move) => move[end] ?? []);
        expect([...new Set(moves)].sort()).toEqual([...states].sort());
      }
    }
  });
});

const STATES = ["waiting", "running", "retrying", "failed", "sent", "expired"];
const TYPES = { emails: "EmailState", webhook_deliveries: "DeliveryState" };

const isListed = (table: OutboxTable, from: string, to: string | null, statement: string) =>
  MOVES.some((move) => move.table === table && move.from === from && move.to === to && move.statement === statement);

/** Opens a connection on which a name stands for one statement, whatever others prepared. */
async function openClient() {
  const client = new pg.Client({ connectionString: services.db.url });
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

describe.each(TABLES)("in all tests, the database rejects moves of %s", (table) => {
  const add = () => (table === "emails" ? addEmails(sql, owner.userId, 1) : addDeliveries(sql, owner.listingId, 1));

  const UPDATE = `
    UPDATE ${table} SET state = $2::text::"${TYPES[table]}",
      next_attempt_at = CASE WHEN $2 IN ('waiting', 'retrying') THEN now() END,
      ended_at = CASE WHEN $2 NOT IN ('waiting', 'retrying', 'running') THEN now() END
    WHERE id = $1::bigint`;
  const DELETE = `DELETE FROM ${table} WHERE id = $1::bigint`;

  const isRejected = (moving: Promise<unknown>) =>
    moving.then(
      () => false,
      (error: Error) => error.message.includes(" may not move ") || expect.fail(error.message),
    );

  test.each(["claim", "record", "release", "heartbeat", "cancel", "unknown"])(
    "that are not listed for the prepared statement %s, and no other",
    async (verb) => {
      const statement = `${verb}-${nounOf(table)}`;
      const [updating, deleting] = [await openClient(), await openClient()];
      const rejected: string[] = [];
      const unlisted: string[] = [];
      for (const from of STATES) {
        const [id = ""] = await add();
        for (const to of STATES) {
          await sql(setState(table, from));
          const update = { name: statement, text: UPDATE, values: [id, to] };
          if (await isRejected(updating.query(update))) rejected.push(`${from} to ${to}`);
          if (from !== to && !isListed(table, from, to, statement)) unlisted.push(`${from} to ${to}`);
        }
        await sql(setState(table, from));
        if (await isRejected(deleting.query({ name: statement, text: DELETE, values: [id] })))
          rejected.push(`${from} deleted`);
        if (!isListed(table, from, null, statement)) unlisted.push(`${from} deleted`);
        await sql(`DELETE FROM ${table}`);
      }
      expect(rejected).toEqual(unlisted);
    },
  );
});
