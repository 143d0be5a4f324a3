import type { BenchRequest } from "./wrk.js";

export interface Operation {
  /** Used by `--only` and in the results. */
  id: string;
  title: string;
  requests: BenchRequest[];
  /** Set for operations on live data: inserts the forms that became due, and returns the requests to send now. */
  refresh?: () => Promise<BenchRequest[]>;
  writes?: true;
  /** Set for points of the plots: number of listings in scope, or page number. */
  scope?: number;
  page?: number;
}
