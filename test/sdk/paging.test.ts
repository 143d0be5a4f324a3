import { describe, expect, test } from "vitest";
import { type FormV1, GuestFormsError } from "../../sdk/src/index.js";
import { respondWith } from "./fault-proxy.js";
import { rejection, useGateway } from "./setup.js";

const context = await useGateway();
const [listingId, otherId] = context.listings.map(({ id }) => id) as [string, string];
const filter = { listingId, limit: 3 };
const list = () => context.client().forms.list(filter);

for (let i = 0; i < 10; i++)
  await context.client().forms.create({ ...context.uniqueStay(), ...(i % 5 === 4 && { listingId: otherId }) });
const onListing = await context.forms(listingId);

/** The paths of the requests, without the values of cursors. */
const paths = () => context.proxy.requests.map(({ path }) => path.replace(/(cursor=)[\w-]+/, "$1"));
const firstPage = `/v1/forms?listingId=${listingId}&limit=3`;
const laterPage = `${firstPage}&cursor=`;

describe("a list that is iterated", () => {
  test("for await yields all items and sends filter and limit with each page", async () => {
    const seen: FormV1[] = [];
    for await (const form of list()) seen.push(form);
    expect(seen).toEqual(onListing);
    expect(paths()).toEqual([firstPage, laterPage, laterPage]);
  });

  test("a page is not fetched before it is needed", async () => {
    for await (const form of list()) if (form.id === onListing[2]?.id) break;
    expect(paths()).toEqual([firstPage]);
  });

  test("byPage yields all pages, and toArray fetches only the pages its limit needs", async () => {
    const sizes: number[] = [];
    for await (const page of list().byPage()) sizes.push(page.items.length);
    expect(sizes).toEqual([3, 3, 2]);
    context.proxy.requests.length = 0;
    expect(await list().toArray({ limit: 3 })).toEqual(onListing.slice(0, 3));
    expect(await list().toArray({ limit: 4 })).toEqual(onListing.slice(0, 4));
    expect(paths()).toEqual([firstPage, firstPage, laterPage]);
  });
});

describe("a list that is awaited", () => {
  test("nextPage fetches the following page, and rejects on the last page", async () => {
    const { data: first, response } = await list().withResponse();
    expect(response.status).toBe(200);
    expect(first.items).toEqual(onListing.slice(0, 3));
    expect(first.hasNextPage()).toBe(true);
    expect(Object.keys(JSON.parse(JSON.stringify(first)))).toEqual(["items", "nextCursor"]);
    const { data: third } = await (await first.nextPage()).nextPage().withResponse();
    expect(third.items).toEqual(onListing.slice(6));
    expect([third.hasNextPage(), third.nextCursor]).toEqual([false, null]);
    expect(await rejection(third.nextPage())).toBeInstanceOf(GuestFormsError);
  });

  test("a stored cursor resumes the list", async () => {
    const { nextCursor } = await list();
    const rest = context.client().forms.list({ ...filter, cursor: nextCursor ?? "" });
    expect(await rest.toArray()).toEqual(onListing.slice(3));
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
