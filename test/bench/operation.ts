import type { Request } from "./wrk.js";

export interface Operation {
  /** What `--only` and the results call it. */
  id: string;
  title: string;
  requests: Request[];
  /** Set if the requests age: brings the data up to the present, and returns the requests to send now. */
  renew?: () => Promise<Request[]>;
  writes?: true;
  /** Set where it is a point of the plots: listings in scope, or the page's number. */
  scope?: number;
  page?: number;
}
