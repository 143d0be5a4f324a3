import { GuestFormsError } from "./errors.js";
import { ApiPromise, type WithResponse } from "./promise.js";
import type { RequestOptions, Transport } from "./transport.js";

/** One page of a list. Iterating over it goes through its items and those of all pages after it. */
export class Page<T> implements AsyncIterable<T> {
  /** The items of this page, in the order of creation. */
  readonly items: T[];
  /** Opaque token of the next page, null on the last: pass it as `cursor` to go on from here another time. */
  readonly nextCursor: string | null;
  readonly #fetch: (cursor: string) => PagePromise<T>;

  /** @internal */
  constructor(items: T[], nextCursor: string | null, fetch: (cursor: string) => PagePromise<T>) {
    this.items = items;
    this.nextCursor = nextCursor;
    this.#fetch = fetch;
  }

  /** Whether there is a page after this one. */
  hasNextPage(): boolean {
    return this.nextCursor !== null;
  }

  /**
   * Fetches the next page, with the same filter, limit and options.
   * @throws {@link GuestFormsError} on the last page; else as the list itself.
   */
  nextPage(): PagePromise<T> {
    const { nextCursor } = this;
    if (nextCursor !== null) return this.#fetch(nextCursor);
    return new PagePromise(async () => {
      throw new GuestFormsError("This is the last page: ask hasNextPage() first");
    });
  }

  /** This page and all after it, each fetched when it is asked for. */
  async *byPage(): AsyncGenerator<Page<T>, void, undefined> {
    yield this;
    for (let page: Page<T> = this; page.hasNextPage(); ) {
      page = await page.nextPage();
      yield page;
    }
  }

  /** The items of this page and of all after it, at most `limit`; no page beyond is fetched. */
  async toArray({ limit = Infinity }: { limit?: number | undefined } = {}): Promise<T[]> {
    const all: T[] = [];
    for await (const page of this.byPage()) {
      all.push(...page.items);
      if (all.length >= limit) break;
    }
    return all.slice(0, limit);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    for await (const page of this.byPage()) yield* page.items;
  }
}

/**
 * A list not fetched yet: `await` gives its first page, `for await` its items over all pages. The first request is
 * sent when one of them asks for it.
 */
export class PagePromise<T> extends ApiPromise<Page<T>> implements AsyncIterable<T> {
  /** All pages, from the first. */
  async *byPage(): AsyncGenerator<Page<T>, void, undefined> {
    yield* (await this).byPage();
  }

  /** The items of all pages, at most `limit`; no page beyond is fetched. */
  async toArray(options?: { limit?: number | undefined }): Promise<T[]> {
    return (await this).toArray(options);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    yield* await this;
  }
}

/** Options of both lists. */
export interface ListParams {
  /** Items a page: 50 unless told, clamped by the service to 1..100. It bounds a page, not the iteration. */
  limit?: number | undefined;
  /** Goes on after an earlier page: its `nextCursor`. Valid with the same `listingId` only. */
  cursor?: string | undefined;
}

/** Lists `path`, repeating parameters and options on each page. */
export function list<T>(
  transport: Transport,
  path: string,
  params: ListParams = {},
  options?: RequestOptions,
): PagePromise<T> {
  const query = { ...params };
  return new PagePromise<T>(async () => {
    const answer = await transport.send(
      { method: "GET", path, query, accepts: (body) => Array.isArray(body.items) },
      options,
    );
    const { items, nextCursor = null } = answer.data as { items: T[]; nextCursor?: string | null };
    const page = new Page(items, nextCursor, (cursor) =>
      list(transport, path, { ...query, cursor }, options),
    );
    return { ...answer, data: page } satisfies WithResponse<Page<T>>;
  });
}
