import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { scale } from "../support/rounds.js";
import { median } from "../support/statistics.js";
import type { PatroniCluster } from "./patroni-cluster.js";

const ROUNDS = scale(1);
const CONFIG = readFileSync(join(packageRoot(), "deploy/patroni.yml"), "utf8");
const readMs = (setting: string) => 1_000 * Number(new RegExp(`^ *${setting}: (\\d+)$`, "m").exec(CONFIG)?.[1]);
/** A leader renews its lock, which lasts for the TTL, once per loop. */
export const TTL_MS = readMs("ttl");
export const LOOP_WAIT_MS = readMs("loop_wait");
const MAX_OUTAGE_MS = TTL_MS + 5_000;
/** Nothing is acknowledged before the only standby that is left has undone what the new leader lacks. */
const MAX_OUTAGE_WITH_REWIND_MS = TTL_MS + 10_000;

/** How long requests failed. */
export interface Outage {
  ms: number;
  /** Whether the standby that was not promoted had to be rewound, because it had more WAL than the one that was. */
  wasStandbyRewound?: boolean;
}

/** Repeats a fault, reports how long it takes until requests are served again, and asserts that it is short enough. */
export async function repeat(cluster: PatroniCluster, name: string, fault: () => Promise<Outage>): Promise<void> {
  const outages: Outage[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    try {
      const outage = await fault();
      expect(outage.ms).toBeLessThan(outage.wasStandbyRewound ? MAX_OUTAGE_WITH_REWIND_MS : MAX_OUTAGE_MS);
      outages.push(outage);
    } catch (error) {
      throw new Error(`${name}, round ${round + 1}: ${error}\n${await cluster.readLogs()}`, { cause: error });
    }
  }
  const times = outages.map(({ ms }) => ms);
  const seconds = [Math.min(...times), median(times), Math.max(...times)].map((ms) => (ms / 1_000).toFixed(1));
  const rewinds = outages.filter(({ wasStandbyRewound }) => wasStandbyRewound).length;
  console.info(
    `${name}: served again after ${seconds.join(" / ")} s (min / median / max of ${ROUNDS}; ${rewinds} with pg_rewind)`,
  );
}
