import { beforeAll, describe, expect, test } from "vitest";
import { type FormV1, GuestFormsError } from "../../sdk/src/index.js";
import { passThrough, resetBeforeProcessing, respondWith } from "./fault-proxy.js";
import { rejection, useGateway } from "./setup.js";

const context = useGateway();
let onListing: FormV1[];
const filter = () => ({ listingId: context.listings[0]?.id, limit: 3 });

beforeAll(async () => {
  const other = context.listings[1]?.id ?? "";
  for (let i = 0; i < 10; i++) {
    await context
      .client()
      .forms.create({ ...context.uniqueStay(), ...(i % 5 === 4 ? { listingId: other } : {}) });
  }
  onListing = (await context.forms()).filter((form) => form.listingId === context.listings[0]?.id);
});

/** The paths of the requests, without the values of cursors. */
const paths = () => context.proxy.requests.map(({ path }) => path.replace(/(cursor=)[\w-]+/, "$1"));
const firstPage = () => `/v1/forms?listingId=${filter().listingId}&limit=3`;
const laterPage = () => `${firstPage()}&cursor=`;

describe("a list that is iterated", () => {
  test("for await yields all items and sends filter and limit with each page", async () => {
    const seen: FormV1[] = [];
    for await (const form of context.client().forms.list(filter())) seen.push(form);
    expect(seen).toEqual(onListing);
    expect(paths()).toEqual([firstPage(), laterPage(), laterPage()]);
  });

  test("a page is not fetched before it is needed", async () => {
    for await (const form of context.client().forms.list(filter())) if (form.id === onListing[2]?.id) break;
    expect(paths()).toEqual([firstPage()]);
  });

  test("byPage yields all pages, and toArray fetches only the pages its limit needs", async () => {
    const sizes: number[] = [];
    for await (const page of context.client().forms.list(filter()).byPage()) sizes.push(page.items.length);
    expect(sizes).toEqual([3, 3, 2]);
    expect(await context.client().forms.list(filter()).toArray()).toEqual(onListing);
    context.proxy.requests.length = 0;
    expect(await context.client().forms.list(filter()).toArray({ limit: 3 })).toEqual(onListing.slice(0, 3));
    expect(await context.client().forms.list(filter()).toArray({ limit: 4 })).toEqual(onListing.slice(0, 4));
    expect(paths()).toEqual([firstPage(), firstPage(), laterPage()]);
  });

  test("every page uses the parameters at the time of the call and the call's options", async () => {
    const params = filter();
    const list = context.client().forms.list(params, { headers: { "x-run": "7" } });
    params.limit = 99;
    expect(await list.toArray()).toEqual(onListing);
    expect(paths()).toEqual([firstPage(), laterPage(), laterPage()]);
    expect(context.proxy.requests.map((request) => request.headers["x-run"])).toEqual(["7", "7", "7"]);
  });

  test("iteration recovers from a retryable failure and ends with the error of a permanent one", async () => {
    context.proxy.injectNext(passThrough, resetBeforeProcessing);
    expect(await context.client().forms.list(filter()).toArray()).toEqual(onListing);
    context.proxy.injectAlways(resetBeforeProcessing);
    const failing = context.client({ maxRetries: 0 }).forms.list(filter()).toArray();
    expect(await rejection(failing)).toBeInstanceOf(GuestFormsError);
  });
});

describe("a list that is awaited", () => {
  test("nextPage fetches the following page, and rejects on the last page", async () => {
    const { data: first, response } = await context.client().forms.list(filter()).withResponse();
    expect(response.status).toBe(200);
    expect(first.items).toEqual(onListing.slice(0, 3));
    expect(first.nextCursor).toEqual(expect.any(String));
    expect(first.hasNextPage()).toBe(true);
    const second = await first.nextPage();
    const { data: third } = await second.nextPage().withResponse();
    expect(third.items).toEqual(onListing.slice(6));
    expect(third.hasNextPage()).toBe(false);
    expect(third.nextCursor).toBeNull();
    expect(await rejection(third.nextPage())).toBeInstanceOf(GuestFormsError);
  });

  test("iteration, byPage and toArray of a page start with that page", async () => {
    const second = await (await context.client().forms.list(filter())).nextPage();
    expect(await second.toArray()).toEqual(onListing.slice(3));
    expect(await second.toArray({ limit: 2 })).toEqual(onListing.slice(3, 5));
    const ids: string[] = [];
    for await (const form of second) ids.push(form.id);
    expect(ids).toEqual(onListing.slice(3).map((form) => form.id));
    const pages = [];
    for await (const page of second.byPage()) pages.push(page.nextCursor);
    expect(pages).toHaveLength(2);
  });

  test("a stored cursor resumes the list", async () => {
    const { nextCursor } = await context.client().forms.list(filter());
    const rest = context.client().forms.list({ ...filter(), cursor: nextCursor ?? "" });
    expect(await rest.toArray()).toEqual(onListing.slice(3));
  });

  test("a page serializes to JSON as items and nextCursor", async () => {
    const page = await context.client().forms.list(filter());
    expect(Object.keys(JSON.parse(JSON.stringify(page)))).toEqual(["items", "nextCursor"]);
  });

  test("an empty page with a cursor is not the last page; a page without a cursor is", async () => {
    context.proxy.injectNext(
      respondWith(200, { items: [], nextCursor: "a" }),
      respondWith(200, { items: [], nextCursor: "b" }),
      respondWith(200, { items: [onListing[0]] }),
    );
    expect(await context.client().forms.list().toArray()).toEqual([onListing[0]]);
    expect(paths()).toEqual(["/v1/forms", "/v1/forms?cursor=", "/v1/forms?cursor="]);
  });
});
