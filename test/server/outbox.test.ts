import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import type { Claimed } from "../../server/outbox/claim.js";
import type { Released } from "../../server/outbox/heartbeats.js";
import type { Outcome } from "../../server/outbox/record.js";
import { MOVES, nounOf } from "../../server/outbox/states.js";
import { deliveryQueue, emailQueue } from "../support/outbox-queue.js";
import { openWebhookCore } from "../support/webhook-core.js";

// What holds for both tables of the outbox.

const { services, owner, sql, addEndpoint } = await openWebhookCore();

/** The rows of either table as one worker sees them. */
interface Queue {
  claim(): Promise<Claimed | undefined>;
  releaseStale(): Promise<Released[]>;
  mark(row: Claimed, state: string, reason?: string): Promise<void>;
  channel: { record(outcomes: Outcome[]): Promise<void> };
}

describe.each([
  ["emails", emailQueue],
  ["webhook_deliveries", deliveryQueue],
] as const)("a row of %s", (table, queueOf) => {
  const [one, other]: [Queue, Queue] = [queueOf(services, "one"), queueOf(services, "other")];

  // One email and one delivery.
  beforeEach(async () => {
    await addEndpoint("http://127.0.0.1/hook");
    await owner.create(owner.body);
  });

  const read = () => sql(`SELECT * FROM ${table} ORDER BY id`);
  const makeDue = () =>
    sql(`UPDATE ${table} SET next_attempt_at = now() - interval '1 ms' WHERE next_attempt_at IS NOT NULL`);
  const letHeartbeatBe = (seconds: number) =>
    sql(`UPDATE ${table} SET heartbeat_at = now() - make_interval(secs => $1)`, seconds);
  const claimWith = async (queue: Queue) => (await queue.claim()) ?? expect.fail("nothing is due");
  /** Adds rows like the first one that `worker` is sending at this attempt. */
  const addRunning = (worker: string, attempts: number, count: number) => {
    const copied =
      table === "emails" ? "kind, form_id, tenant_id, check_in_date" : "endpoint_id, event_id, event_type, form_id";
    return sql(
      `INSERT INTO ${table} (${copied}, correlation_id, state, attempts, worker_id, heartbeat_at, next_attempt_at)
       SELECT ${copied}, correlation_id, 'running', $2, $1, now(), NULL FROM ${table}, generate_series(1, $3)
       RETURNING id::text`,
      worker,
      attempts,
      count,
    );
  };

  test("is taken over if its worker sent the last heartbeat 21 s ago, and not if it sent it 19 s ago", async () => {
    await claimWith(one);
    await letHeartbeatBe(19);
    expect(await other.releaseStale()).toEqual([]);
    await letHeartbeatBe(21);
    expect(await other.releaseStale()).toMatchObject([{ crashes: 1, givenUp: null }]);
  });

  test("is given up when its worker has crashed five times in a row, and not after four times", async () => {
    for (let crashes = 1; crashes <= 5; crashes++) {
      await makeDue();
      await claimWith(one);
      await letHeartbeatBe(60);
      const givenUp = crashes < 5 ? null : "its worker crashed at each of 5 attempts in a row";
      expect(await other.releaseStale()).toMatchObject([{ crashes, givenUp }]);
      expect(await read()).toMatchObject([{ state: crashes < 5 ? "waiting" : "failed", attempts: 0 }]);
      if (crashes < 5) expect(await other.claim(), "others go first").toBeUndefined();
    }
  });

  test("counts the crashes again after a recorded failure, and no crash as an attempt", async () => {
    for (let attempts = 1; attempts <= 3; attempts++) {
      for (let crashes = 1; crashes < 5; crashes++) {
        await makeDue();
        await claimWith(one);
        await letHeartbeatBe(60);
        expect(await other.releaseStale()).toMatchObject([{ crashes, givenUp: null }]);
      }
      await makeDue();
      await other.mark(await claimWith(other), "retrying", "busy");
      expect(await read()).toMatchObject([{ state: "retrying", attempts, last_error: "busy" }]);
      await sql("UPDATE webhook_endpoints SET paused_until = NULL");
    }
  });

  test.each(["another attempt is awaited", "another worker is sending it"])(
    "that was taken over becomes sent if the first worker reports its success late, while %s; a late failure changes nothing",
    async (meanwhile) => {
      const first = await claimWith(one);
      await letHeartbeatBe(60);
      await other.releaseStale();
      await makeDue();
      const second = meanwhile === "another worker is sending it" ? await claimWith(other) : undefined;
      const before = await read();
      for (const state of ["retrying", "failed", "expired"]) {
        await one.mark(first, state, "too late");
        expect(await read()).toEqual(before);
      }
      await one.mark(first, "sent");
      const after = await read();
      expect(after).toMatchObject([{ state: "sent", last_error: null, next_attempt_at: null }]);
      if (second) await other.mark(second, "retrying", "it was sent before");
      expect(await read()).toEqual(after);
      expect(await other.claim()).toBeUndefined();
    },
  );

  test("is recorded completely or not at all, whatever happened to the others of its batch", async () => {
    const ids = (await addRunning("one", 3, 4)).map(({ id }) => id) as [string, string, string, string];
    await sql(`UPDATE ${table} SET worker_id = 'other' WHERE id = ANY($1)`, ids.slice(2));
    const [, , , , taken] = await read();
    const states = ["retrying", "sent", "sent", "failed"];
    await one.channel.record(
      ids.map((id, index) => ({ id, state: states[index] ?? "", reason: states[index] === "sent" ? null : "busy" })),
    );
    const [, ...recorded] = await read();
    expect(recorded).toMatchObject([
      { state: "retrying", attempts: 3, last_error: "busy", ended_at: null, next_attempt_at: expect.any(Date) },
      { state: "sent", attempts: 3, last_error: null, ended_at: expect.any(Date), next_attempt_at: null },
      { state: "sent", attempts: 3, last_error: null, ended_at: expect.any(Date), next_attempt_at: null },
      taken,
    ]);
  });

  test("waits e^n seconds after its nth failure, with jitter of 20% either way", async () => {
    const ids = (await addRunning("one", 4, 60)).map(({ id }) => id);
    const clock = async () => (await sql("SELECT clock_timestamp() AS now"))[0].now.getTime();
    const before = await clock();
    await one.channel.record(ids.map((id) => ({ id, state: "retrying", reason: "busy" })));
    const after = await clock();
    const times = (await read()).slice(1).map(({ next_attempt_at: at }) => at.getTime());
    const seconds = Math.exp(4);
    // The columns have milliseconds.
    for (const at of times) {
      expect((at - before + 1) / 1000).toBeGreaterThan(0.8 * seconds);
      expect((at - after - 1) / 1000).toBeLessThan(1.2 * seconds);
    }
    expect(Math.max(...times) - Math.min(...times)).toBeGreaterThan(0.2 * seconds * 1000);
  });
});

test("temporary failures of an email are retried for four days", async () => {
  await owner.create(owner.body);
  const queue = emailQueue(services, "worker");
  let seconds = 0;
  for (let isLast = false; !isLast; ) {
    await sql("UPDATE emails SET next_attempt_at = now() - interval '1 second'");
    const claimed = (await queue.claim()) ?? expect.fail("nothing to claim");
    isLast = queue.isLastAttempt(claimed);
    await queue.mark(claimed, isLast ? "failed" : "retrying", "busy");
    const PAUSE = "SELECT extract(epoch FROM next_attempt_at - now())::float8 AS seconds FROM emails";
    seconds += (await sql(PAUSE))[0].seconds ?? 0;
  }
  // With jitter.
  expect(seconds / 86_400).toBeGreaterThan(3.5);
  expect(seconds / 86_400).toBeLessThan(4.5);
});

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

  test("is enforced in all tests: the database rejects a move of a statement that it does not list", async () => {
    const move = "UPDATE webhook_deliveries SET state = 'sent', next_attempt_at = NULL, ended_at = now()";
    await addEndpoint("http://127.0.0.1/hook");
    await owner.create(owner.body);
    await expect(services.db.query("another-writer", move, [])).rejects.toThrow(
      "another-writer may not move webhook_deliveries from waiting to sent",
    );
  });
});
