import { ApiError } from "./api-errors.js";
import { GuestFormsError } from "./errors.js";
import { isObject } from "./json.js";
import { ApiPromise, attachResponse } from "./promise.js";
import { isResource, withIsoStrings } from "./resource.js";
import type { RequestOptions, Transport } from "./transport.js";

/** One page of a list. Iterating over it yields its items, then those of all following pages. */
export class Page<T> implements AsyncIterable<T> {
  /** The items of this page, oldest first. */
  readonly items: T[];
  /** Opaque cursor of the next page; null on the last page. Store it and pass it as `cursor` to continue later. */
  readonly nextCursor: string | null;
  /** Correlation id (UUID) of the page's response; undefined if a proxy removed the header. Not enumerable. */
  declare readonly _correlationId: string | undefined;
  readonly #fetchPage: (cursor: string) => PagePromise<T>;

  /** @internal */
  constructor(items: T[], nextCursor: string | null, fetchPage: (cursor: string) => PagePromise<T>) {
    this.items = items;
    this.nextCursor = nextCursor;
    this.#fetchPage = fetchPage;
  }

  /**
   * Whether there is a next page.
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
   * @throws {@link GuestFormsError} on the last page; otherwise the errors of the list.
   *
   * @example
   * ```ts
   * const page = await client.forms.list({ limit: 20 });
   * if (page.hasNextPage()) console.log((await page.nextPage()).items);
   * ```
   */
  nextPage(): PagePromise<T> {
    const { nextCursor } = this;
    if (nextCursor !== null) return this.#fetchPage(nextCursor);
    return new PagePromise(async () => {
      throw new GuestFormsError("This is the last page: check hasNextPage() first");
    });
  }

  /**
   * Yields this page and all following ones. Each page is fetched when it is needed.
   *
   * @throws the errors of the list.
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
   * Resolves to the items of this page and all following ones, at most `limit`. Fetches only the pages it needs.
   *
   * @throws the errors of the list.
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
      for (const item of page.items) all.push(item);
      if (all.length >= limit) break;
    }
    return all.slice(0, limit);
  }

  /** Yields the items of this page and all following ones. */
  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    for await (const page of this.byPage()) yield* page.items;
  }
}

/**
 * A list: `await` it for its first page, or use `for await` for the items of all pages. No request is sent before
 * that.
 */
export class PagePromise<T> extends ApiPromise<Page<T>> implements AsyncIterable<T> {
  /**
   * Yields all pages. Each page is fetched when it is needed.
   *
   * @throws the errors of the list.
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
   * Resolves to the items of all pages, oldest first, at most `limit`. Fetches only the pages it needs.
   *
   * @throws the errors of the list.
   *
   * @example
   * ```ts
   * const oldest = await client.forms.list().toArray({ limit: 1000 });
   * ```
   */
  async toArray(options?: ArrayOptions): Promise<T[]> {
    return (await this).toArray(options);
  }

  /** Yields the items of all pages. */
  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    yield* await this;
  }
}

/** Options of {@link PagePromise.toArray}. */
export interface ArrayOptions {
  /** Maximum number of items over all pages. Default: no limit. */
  limit?: number | undefined;
}

/** Options of both lists. */
export interface ListParams {
  /** Items per page. Default: 50; the service clamps it to 1 to 100. Does not limit the number of pages. */
  limit?: number | undefined;
  /** `nextCursor` of an earlier page: continues after it. Valid only with the same filters. */
  cursor?: string | undefined;
}

/** Whether `body` is a page. A page of another kind would fail in the caller's code. */
const isPage = (body: unknown): boolean =>
  isObject(body) &&
  Array.isArray(body.items) &&
  body.items.every(isResource) &&
  typeof (body.nextCursor ?? "") === "string";

/**
 * Lists `path`, with the same parameters and options for each page. `mark` is the cursor of page 1, 2, 4, 8 …, whichever was
 * last: cursors that repeat come to it again (Brent's algorithm), which ends the list.
 */
export function list<T>(
  transport: Transport,
  path: string,
  params: ListParams = {},
  options?: RequestOptions,
  pageNumber = 1,
  mark: string | null = params.cursor ?? null,
): PagePromise<T> {
  const given = { ...params };
  return new PagePromise<T>(async () => {
    const query = withIsoStrings(given);
    const { result, text } = await transport.send({ method: "GET", path, query, isExpected: isPage }, options);
    const { items, nextCursor = null } = result.data as { items: T[]; nextCursor?: string | null };
    if (nextCursor !== null && nextCursor === mark) {
      throw new ApiError(`GET ${path}: the cursors repeat, so the list would never end`, result.response);
    }
    const nextMark = pageNumber & (pageNumber - 1) ? mark : nextCursor;
    const fetchPage = (cursor: string) =>
      list<T>(transport, path, { ...query, cursor }, options, pageNumber + 1, nextMark);
    const page = new Page(items, nextCursor, fetchPage);
    return { result: { ...result, data: attachResponse(page, result) }, text };
  });
}
