import type { FormV1 } from "../../server/forms/schema.js";
import { sendRequest, type TimedResponse } from "../support/http-client.js";
import type { PostgresService } from "./postgres-service.js";

/** Forms and responses of a list that was read page by page. */
export interface FullList {
  forms: FormV1[];
  pages: TimedResponse[];
}

type ServedList = Pick<PostgresService, "gateway" | "fixture">;

/** Reads all pages of the list, or those after a cursor, from gateway `n`; stops at a response that is not a page. */
export async function listAllForms(service: ServedList, n: number, after?: string): Promise<FullList> {
  const found: FullList = { forms: [], pages: [] };
  for (let cursor: string | null | undefined = after; cursor !== null; ) {
    const query: string = cursor === undefined ? "" : `&cursor=${cursor}`;
    const { url } = service.gateway(n);
    const page = await sendRequest(`${url}/v1/forms?limit=20${query}`, service.fixture.key.key);
    found.pages.push(page);
    if (page.status !== 200) return found;
    const { items, nextCursor } = page.json as { items: FormV1[]; nextCursor: string | null };
    found.forms.push(...items);
    cursor = nextCursor;
  }
  return found;
}

export const idsOf = (forms: FormV1[]) => forms.map(({ id }) => id);

/** Clients that read the whole list again and again. */
export interface ListingClients {
  pages: TimedResponse[];
  /** Ids of forms that a list lacked although they were acknowledged before it was read. */
  missed: string[];
  /** Ids of forms that a list had more than once. */
  repeated: string[];
  /** Lists that each client has read. */
  fullLists: number[];
  stop(): Promise<void>;
}

/** Starts clients that compare each list with the forms that were acknowledged before. */
export function startListing(service: ServedList, clients: number, acknowledged: FormV1[]): ListingClients {
  let isStopped = false;
  const run = async (n: number) => {
    while (!isStopped) {
      const expected = idsOf(acknowledged);
      const { forms, pages } = await listAllForms(service, n);
      const listed = new Set(idsOf(forms));
      listing.pages.push(...pages);
      listing.missed.push(...expected.filter((id) => !listed.has(id)));
      listing.repeated.push(...idsOf(forms).filter((id) => !listed.delete(id)));
      listing.fullLists[n] = (listing.fullLists[n] ?? 0) + 1;
    }
  };
  const listing: ListingClients = {
    pages: [],
    missed: [],
    repeated: [],
    fullLists: Array<number>(clients).fill(0),
    stop: async () => {
      isStopped = true;
      await running;
    },
  };
  const running = Promise.all(listing.fullLists.map((_, n) => run(n)));
  return listing;
}
