import type { BenchRequest } from "./wrk.js";

export interface Operation {
  /** Used by `--only` and in the results. */
  id: string;
  title: string;
  requests: BenchRequest[];
  /** Set for operations on live data: inserts the forms that became due, and returns the requests to send now. */
  refresh?: () => Promise<BenchRequest[]>;
  writes?: true;
  /** Set if the requests are creates that were sent before, so that the load only replays them. */
  replays?: true;
  /** Set for an integrator who polls the end of the list with the newest cursor. */
  followsTail?: true;
  /** Creates that another client sends meanwhile, CREATES_PER_SECOND. */
  besideCreates?: BenchRequest[];
}
