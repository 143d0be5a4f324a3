import { beforeAll, describe, expect, test } from "vitest";
import { type FormV1, GuestFormsError } from "../../sdk/src/index.js";
import { answer, resetBefore } from "./mischief.js";
import { rejection, useWorld } from "./setup.js";

const world = useWorld();
let mine: Partial<FormV1>[];
const filter = () => ({ listingId: world.service.listings[0]?.id, limit: 3 });

beforeAll(async () => {
  const other = world.service.listings[1]?.id ?? "";
  for (let i = 0; i < 10; i++) {
    await world.client().forms.create({ ...world.stay(), ...(i % 5 === 4 ? { listingId: other } : {}) });
  }
  mine = world.service.forms.filter((form) => form.listingId === world.service.listings[0]?.id);
});

const paths = () => world.mischief.requests.map((request) => request.path);
const withFilter = (cursor?: number) =>
  `/v1/forms?listingId=${filter().listingId}&limit=3${cursor ? `&cursor=${cursor}~${filter().listingId}` : ""}`;

describe("a list not awaited", () => {
  test("goes through all items, repeating filter and limit on each page", async () => {
    const seen: FormV1[] = [];
    for await (const form of world.client().forms.list(filter())) seen.push(form);
    expect(seen).toEqual(mine);
    expect(paths()).toEqual([withFilter(), withFilter(3), withFilter(6)]);
  });

  test("fetches no page before it is needed", async () => {
    for await (const form of world.client().forms.list(filter())) if (form.id === mine[2]?.id) break;
    expect(paths()).toEqual([withFilter()]);
  });

  test("by page, and as an array", async () => {
    const sizes: number[] = [];
    for await (const page of world.client().forms.list(filter()).byPage()) sizes.push(page.items.length);
    expect(sizes).toEqual([3, 3, 2]);
    expect(await world.client().forms.list(filter()).toArray()).toEqual(mine);
    world.mischief.requests.length = 0;
    expect(await world.client().forms.list(filter()).toArray({ limit: 3 })).toEqual(mine.slice(0, 3));
    expect(await world.client().forms.list(filter()).toArray({ limit: 4 })).toEqual(mine.slice(0, 4));
    expect(paths()).toEqual([withFilter(), withFilter(), withFilter(3)]);
  });

  test("keeps parameters as they were when it was made, and the call's options on each page", async () => {
    const params = filter();
    const list = world.client().forms.list(params, { headers: { "x-run": "7" } });
    params.limit = 99;
    expect(await list.toArray()).toEqual(mine);
    expect(paths()).toEqual([withFilter(), withFilter(3), withFilter(6)]);
    expect(world.mischief.requests.map((request) => request.headers["x-run"])).toEqual(["7", "7", "7"]);
  });

  test("a failure midway ends the loop with the error; a passing one does not", async () => {
    world.mischief.plan(
      ...[undefined, resetBefore].map(
        (fault) =>
          fault ??
          answer(200, {
            items: mine.slice(0, 3),
            nextCursor: `3~${filter().listingId}`,
          }),
      ),
    );
    expect(await world.client().forms.list(filter()).toArray()).toEqual(mine);
    world.mischief.always(resetBefore);
    const failing = world.client({ maxRetries: 0 }).forms.list(filter()).toArray();
    expect(await rejection(failing)).toBeInstanceOf(GuestFormsError);
  });
});

describe("a list awaited", () => {
  test("is a page that knows the next one", async () => {
    const first = await world.client().forms.list(filter());
    expect(first.items).toEqual(mine.slice(0, 3));
    expect(first.nextCursor).toBe(`3~${filter().listingId}`);
    expect(first.hasNextPage()).toBe(true);
    const second = await first.nextPage();
    const { data: third } = await second.nextPage().withResponse();
    expect(third.items).toEqual(mine.slice(6));
    expect(third.hasNextPage()).toBe(false);
    expect(third.nextCursor).toBeNull();
    expect(await rejection(third.nextPage())).toBeInstanceOf(GuestFormsError);
  });

  test("goes on from itself: items, pages, array", async () => {
    const second = await (await world.client().forms.list(filter())).nextPage();
    expect(await second.toArray()).toEqual(mine.slice(3));
    expect(await second.toArray({ limit: 2 })).toEqual(mine.slice(3, 5));
    const ids: string[] = [];
    for await (const form of second) ids.push(form.id);
    expect(ids).toEqual(mine.slice(3).map((form) => form.id));
    const pages = [];
    for await (const page of second.byPage()) pages.push(page.nextCursor);
    expect(pages).toHaveLength(2);
  });

  test("is resumed elsewhere by its cursor", async () => {
    const { nextCursor } = await world.client().forms.list(filter());
    const rest = world.client().forms.list({ ...filter(), cursor: nextCursor ?? "" });
    expect(await rest.toArray()).toEqual(mine.slice(3));
  });

  test("is plain data in JSON", async () => {
    const page = await world.client().forms.list(filter());
    expect(Object.keys(JSON.parse(JSON.stringify(page)))).toEqual(["items", "nextCursor"]);
  });

  test("an empty page with a cursor is not the end; an absent cursor is", async () => {
    world.mischief.plan(
      answer(200, { items: [], nextCursor: "a" }),
      answer(200, { items: [], nextCursor: "b" }),
      answer(200, { items: [mine[0]] }),
    );
    expect(await world.client().forms.list().toArray()).toEqual([mine[0]]);
    expect(paths()).toEqual(["/v1/forms", "/v1/forms?cursor=a", "/v1/forms?cursor=b"]);
  });
});
