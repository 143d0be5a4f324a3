import type { TimedResponse } from "../support/http-client.js";
import { quantile } from "../support/statistics.js";

/** How much longer requests may take because of the upgrade… */
const MAX_DELAY_MS = 500;
/** …unless they take as much longer without an upgrade: on a busy machine the slowest request differs by this factor. */
const MAX_RATIO = 2;

type Sample = Pick<TimedResponse, "sentAt" | "receivedAt">;

/** A single stall shows in the slowest request, requests that are slow all the time in the median. */
const QUANTILES = { median: 0.5, "99th percentile": 0.99, maximum: 1 };

/**
 * Describes the delay that an upgrade adds, undefined if it is within its bounds. `quiet` are requests to the same processes
 * for as long a time without an upgrade.
 */
export function findDelay(samples: { upgrade: Sample[]; quiet: Sample[] }): string | undefined {
  const durationsOf = (all: Sample[]) => all.map(({ sentAt, receivedAt }) => receivedAt - sentAt);
  const [upgrade, quiet] = [durationsOf(samples.upgrade), durationsOf(samples.quiet)];
  for (const [name, q] of Object.entries(QUANTILES)) {
    const [own, usual] = [quantile(upgrade, q), quantile(quiet, q)];
    if (!(own < usual + MAX_DELAY_MS || own < usual * MAX_RATIO))
      return `Requests take ${Math.round(own)} ms in the upgrade, ${Math.round(usual)} ms without (${name}).`;
  }
  return undefined;
}
