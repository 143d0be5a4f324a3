import { expect, test, vi } from "vitest";
import { Deadline } from "../../sdk/src/deadline.js";
import { AbortError, type Fetch, GuestForms, TimeoutError } from "../../sdk/src/index.js";
import { Slots } from "../../sdk/src/slots.js";
import { rejection, useGateway } from "./setup.js";

const context = await useGateway({ RATE_LIMIT_MAX: 40, RATE_LIMIT_WINDOW_SECONDS: 2 });

/** A client without a timeout of its own, whose `fetch` is controlled by the test. */
const clientWith = (fetch: Fetch, options = {}) =>
  new GuestForms({ apiKey: context.readWrite, baseUrl: context.proxy.url, fetch, ...options });

const ok = () => Response.json({ items: [], nextCursor: null });
const limited = (retryAfter: number) =>
  Response.json({ code: "RATE_LIMITED", message: "" }, { status: 429, headers: { "retry-after": String(retryAfter) } });

/** A `fetch` whose responses wait until they are released. */
function holdResponses() {
  const held: (() => void)[] = [];
  const fetch = vi.fn(() => new Promise<Response>((resolve) => held.push(() => resolve(ok()))));
  return { fetch, release: () => held.splice(0).forEach((respond) => void respond()) };
}

test("150 creates at once make 150 forms, 8 at a time, although the rate limit allows 40 in 2 s", async () => {
  let running = 0;
  let most = 0;
  const fetch: Fetch = async (...args) => {
    most = Math.max(most, ++running);
    return globalThis.fetch(...(args as Parameters<typeof globalThis.fetch>)).finally(() => running--);
  };
  const client = clientWith(fetch);
  const stays = Array.from({ length: 150 }, () => context.uniqueStay());
  const forms = await Promise.all(stays.map((stay) => client.forms.create(stay)));
  expect(forms.map(({ checkInDate }) => checkInDate)).toEqual(stays.map(({ checkInDate }) => checkInDate));
  expect((await context.forms()).map(({ id }) => id).sort()).toEqual(forms.map(({ id }) => id).sort());
  expect(most).toBe(8);
});

test.each([
  [{}, 8],
  [{ maxConcurrency: 3 }, 3],
  [{ maxConcurrency: Number.POSITIVE_INFINITY }, 20],
])(
  "of 20 calls of a client with %j, %d run at the same time; a client of withOptions counts its own",
  async (options, count) => {
    const { fetch, release } = holdResponses();
    const client = clientWith(fetch, options);
    const listAll = (of: GuestForms) => Array.from({ length: 20 }, () => of.listings.list().then(() => "listed"));
    const calls = listAll(client);
    await vi.waitFor(() => expect(fetch).toHaveBeenCalledTimes(count));
    const others = listAll(client.withOptions({ logLevel: "off" }));
    await vi.waitFor(() => expect(fetch).toHaveBeenCalledTimes(2 * count));
    const releasing = setInterval(release, 1);
    expect(new Set(await Promise.all([...calls, ...others]))).toEqual(new Set(["listed"]));
    clearInterval(releasing);
    expect(fetch).toHaveBeenCalledTimes(40);
  },
);

test("a call that is aborted, or exceeds its timeout, while it waits for others sends nothing, and the others go on", async () => {
  const { fetch, release } = holdResponses();
  const client = clientWith(fetch, { maxConcurrency: 1 });
  const controller = new AbortController();
  const first = client.listings.list().then(() => "listed");
  const aborted = rejection(client.listings.list({}, { signal: controller.signal }));
  const late = rejection(client.listings.list({}, { timeout: 5 }));
  const last = client.listings.list().then(() => "listed");
  const timeout = await late;
  expect(timeout).toBeInstanceOf(TimeoutError);
  expect(timeout).toMatchObject({ message: expect.stringContaining("not sent, because other calls of this client") });
  controller.abort();
  expect(await aborted).toBeInstanceOf(AbortError);
  expect(fetch).toHaveBeenCalledTimes(1);
  release();
  expect(await first).toBe("listed");
  await vi.waitFor(() => expect(fetch).toHaveBeenCalledTimes(2));
  release();
  expect(await last).toBe("listed");
});

test("a failed call leaves its place to the next one", async () => {
  const client = clientWith(() => Promise.reject(new TypeError("fetch failed")), { maxConcurrency: 1, maxRetries: 0 });
  const calls = Array.from({ length: 3 }, () => rejection(client.listings.list()));
  for (const call of calls) expect(await call).toMatchObject({ name: "ConnectionError" });
});

test("without a timeout of the caller, a call waits as long as Retry-After of a 429 says, and for the response 60 s", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] });
  vi.spyOn(Math, "random").mockReturnValue(0);
  const started = Date.now();
  const fetch = vi.fn<Fetch>(() => new Promise(() => {})).mockImplementationOnce(async () => limited(300));
  const failing = rejection(clientWith(fetch).listings.list());
  await vi.advanceTimersByTimeAsync(299_999);
  expect(fetch).toHaveBeenCalledTimes(1);
  await vi.runAllTimersAsync();
  expect(fetch).toHaveBeenCalledTimes(2);
  expect(await failing).toBeInstanceOf(TimeoutError);
  expect(Date.now() - started).toBe(360_000);
});

test.each(["just before", "just after"])(
  "a call that is aborted %s its turn leaves its place to the next one",
  async (order) => {
    const slots = new Slots(1);
    const controller = new AbortController();
    const deadlines = [undefined, controller.signal, undefined].map((signal) => new Deadline(60_000, signal));
    const [first, second, third] = deadlines as [Deadline, Deadline, Deadline];
    await slots.acquire(first);
    const aborted = slots.acquire(second).then(
      () => slots.release(),
      () => {},
    );
    const steps = [() => controller.abort(), () => slots.release()];
    for (const step of order === "just before" ? steps : steps.reverse()) step();
    await aborted;
    let hasPlace = false;
    void slots.acquire(third).then(() => {
      hasPlace = true;
    });
    await vi.waitFor(() => expect(hasPlace).toBe(true));
    for (const deadline of deadlines) deadline.close();
  },
);
