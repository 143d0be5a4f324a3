import type { Caller } from "../../../server/caller.js";
import { Progress } from "../../cli/progress.js";

/** Renews everything, batch by batch. */
export async function reencryptAll(core: Caller) {
  const renewed = { addresses: 0, creates: 0 };
  const progress = new Progress(100, process.stderr, "%");
  for (let after: string | undefined, isDone = false; !isDone; ) {
    const { next, addresses, creates } = await core.secrets.reencrypt({ after });
    renewed.addresses += addresses;
    renewed.creates += creates;
    // Ids are random, and read in order.
    progress.add((next ? Math.floor((100 * Number.parseInt(next.slice(0, 4), 16)) / 0x10000) : 100) - progress.done);
    after = next ?? undefined;
    isDone = next === null;
  }
  progress.end();
  return { renewed };
}
