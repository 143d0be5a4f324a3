import { GuestFormsError } from "./errors.js";
import { ApiPromise, trace } from "./promise.js";
import { isObject, type RequestOptions, type Transport } from "./transport.js";

/** One page of a list. Iterating over it goes through its items and those of all pages after it. */
export class Page<T> implements AsyncIterable<T> {
  /** The items of this page, in the order of creation. */
  readonly items: T[];
  /** Opaque token of the next page, null on the last: pass it as `cursor` to go on from here another time. */
  readonly nextCursor: string | null;
  /** Correlation id (UUID) of the page's response; undefined if a proxy removed the header. Not enumerable. */
  declare readonly _correlationId: string | undefined;
  readonly #fetch: (cursor: string) => PagePromise<T>;

  /** @internal */
  constructor(items: T[], nextCursor: string | null, fetch: (cursor: string) => PagePromise<T>) {
    this.items = items;
    this.nextCursor = nextCursor;
    this.#fetch = fetch;
  }

  /**
   * Whether there is a page after this one.
   *
   * @example
   * ```ts
   * let page = await client.forms.list();
   * while (page.hasNextPage()) page = await page.nextPage();
   * ```
   */
  hasNextPage(): boolean {
    return this.nextCursor !== null;
  }

  /**
   * Fetches the next page, with the same filter, limit and options.
   *
   * @throws {@link GuestFormsError} on the last page; else as the list itself.
   *
   * @example
   * ```ts
   * const page = await client.forms.list({ limit: 20 });
   * if (page.hasNextPage()) console.log((await page.nextPage()).items);
   * ```
   */
  nextPage(): PagePromise<T> {
    const { nextCursor } = this;
    if (nextCursor !== null) return this.#fetch(nextCursor);
    return new PagePromise(async () => {
      throw new GuestFormsError("This is the last page: ask hasNextPage() first");
    });
  }

  /**
   * This page and all after it, each fetched when it is asked for.
   *
   * @example
   * ```ts
   * const first = await client.forms.list();
   * for await (const page of first.byPage()) console.log(page.items.length);
   * ```
   */
  async *byPage(): AsyncGenerator<Page<T>, void, undefined> {
    yield this;
    for (let page: Page<T> = this; page.hasNextPage(); ) {
      page = await page.nextPage();
      yield page;
    }
  }

  /**
   * The items of this page and of all after it, at most `limit`; no page beyond is fetched.
   *
   * @example
   * ```ts
   * const first = await client.forms.list();
   * const forms = await first.toArray({ limit: 1000 });
   * ```
   */
  async toArray({ limit = Infinity }: ArrayOptions = {}): Promise<T[]> {
    const all: T[] = [];
    for await (const page of this.byPage()) {
      all.push(...page.items);
      if (all.length >= limit) break;
    }
    return all.slice(0, limit);
  }

  /** The items of this page and of all after it. */
  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    for await (const page of this.byPage()) yield* page.items;
  }
}

/**
 * A list not fetched yet: `await` gives its first page, `for await` its items over all pages. The first request is
 * sent when one of them asks for it.
 */
export class PagePromise<T> extends ApiPromise<Page<T>> implements AsyncIterable<T> {
  /**
   * All pages, from the first, each fetched when it is asked for.
   *
   * @example
   * ```ts
   * for await (const page of client.forms.list({ limit: 100 }).byPage()) console.log(page.items.length);
   * ```
   */
  async *byPage(): AsyncGenerator<Page<T>, void, undefined> {
    yield* (await this).byPage();
  }

  /**
   * The items of all pages, at most `limit`; no page beyond is fetched. The oldest come first.
   *
   * @example
   * ```ts
   * const oldest = await client.forms.list().toArray({ limit: 1000 });
   * ```
   */
  async toArray(options?: ArrayOptions): Promise<T[]> {
    return (await this).toArray(options);
  }

  /** The items of all pages. */
  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    yield* await this;
  }
}

/** Options of {@link PagePromise.toArray}. */
export interface ArrayOptions {
  /** Items in all, at most; all by default. */
  limit?: number | undefined;
}

/** Options of both lists. */
export interface ListParams {
  /** Items per page: 50 by default, clamped by the service to 1..100. It bounds a page, not the iteration. */
  limit?: number | undefined;
  /** Continues after an earlier page: its `nextCursor`. Valid with the same `listingId` only. */
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
    const accepts = (body: unknown) => isObject(body) && Array.isArray(body.items);
    const { result, text } = await transport.send({ method: "GET", path, query, accepts }, options);
    const { items, nextCursor = null } = result.data as { items: T[]; nextCursor?: string | null };
    const page = new Page(items, nextCursor, (cursor) =>
      list(transport, path, { ...query, cursor }, options),
    );
    return { result: { ...result, data: trace(page, result.response) }, text };
  });
}
