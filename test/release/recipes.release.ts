import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it, test } from "vitest";
import { type FormV1, instantIn } from "../../sdk/src/index.js";
import { passThrough } from "../sdk/fault-proxy.js";
import { useGateway } from "../sdk/setup.js";
import { asOperator, makeForm, makeListing, makeUser } from "../support/factories.js";
import { spawnNode } from "../support/processes.js";
import { scale } from "../support/rounds.js";
import { makeTempFolder } from "../support/run-tool.js";
import { type Booking, killAtRequest, writeRecipe } from "./recipes.js";

// Runs the programs of the guide with recipes as they are printed there, twice, and killed in the middle.

const use = await useGateway();
const { proxy, gateway, readWrite } = use;
const services = await gateway.services();
const operator = asOperator(services);
const [alfama = "", belem = ""] = use.listings.map(({ id }) => id);
const folder = await makeTempFolder("recipes");

/** Starts a recipe in this folder. */
const start = (file: string, { cwd = folder, key = readWrite, args = [] as string[] } = {}) =>
  spawnNode([file, ...args], { cwd, env: { GUEST_FORMS_API_KEY: key, GUEST_FORMS_BASE_URL: proxy.url } });

/** Runs a recipe that must succeed. Returns the lines of its output, sorted. */
async function run(...args: Parameters<typeof start>): Promise<string[]> {
  const { code, stdout, stderr } = await start(...args).done;
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  return stdout.trim().split("\n").filter(Boolean).sort();
}

/** Asserts that another run of a recipe changes nothing in the database. */
async function expectNoChange(...args: Parameters<typeof run>): Promise<string[]> {
  const before = await gateway.snapshotTables();
  const lines = await run(...args);
  expect(await gateway.snapshotTables()).toEqual(before);
  return lines;
}

describe("the recipe that syncs bookings", async () => {
  const recipe = await writeRecipe(folder, "Sync bookings");
  const write = (bookings: Booking[]) => writeFile(join(folder, "bookings.json"), JSON.stringify(bookings));

  /** Bookings of equal stays, and what becomes of them. */
  function bookingsOf(prefix: string): { before: Booking[]; after: Booking[] } {
    const stay = { listingId: alfama, checkIn: "2031-09-01T15:00", checkOut: "2031-09-08T11:00", guests: 2 };
    const booked = (name: string, more: Partial<Booking> = {}): Booking => ({
      id: `${prefix}+${name}`,
      ...stay,
      ...more,
    });
    return {
      before: [
        booked("stays", { guestEmail: "stays@example.com" }),
        booked("changes", { guestEmail: "" }),
        booked("moves"),
        booked("late"),
        booked("cancelled"),
        booked("never-made", { isCancelled: true }),
      ],
      after: [
        booked("stays", { guestEmail: "stays@example.com" }),
        booked("changes", { checkIn: "2031-09-02T15:00", guests: 3 }),
        booked("moves", { listingId: belem }),
        booked("late", { guestEmail: "late@example.com" }),
        booked("cancelled", { isCancelled: true }),
        booked("never-made", { isCancelled: true }),
        booked("rebooked"),
      ],
    };
  }

  /** Asserts that each booking has one form, which is as the booking is. */
  async function expectForms(prefix: string, bookings: Booking[]) {
    const forms = (await use.forms()).filter(({ externalId }) => externalId?.startsWith(`${prefix}+`));
    const byId = Object.fromEntries(forms.map((form) => [String(form.externalId), form]));
    expect(forms, "one form per booking").toHaveLength(Object.keys(byId).length);
    const live = bookings.filter(({ isCancelled }) => !isCancelled);
    expect(Object.values(byId).filter(({ status }) => status === "SENT")).toHaveLength(live.length);
    for (const { id, listingId, checkIn, checkOut, guests } of live) {
      const [checkInDate, checkOutDate] = [checkIn, checkOut].map((local) => instantIn("Europe/Berlin", local));
      expect(byId[id]).toMatchObject({ listingId, checkInDate, checkOutDate, numberOfGuests: guests, status: "SENT" });
    }
    return byId;
  }

  const countEmails = async ({ id }: FormV1) => (await operator.emails.list({ formId: id })).items.length;

  it("creates, changes, moves and cancels forms, makes one for a stay that is booked again, sends a late address the link, and changes nothing when it runs again", async () => {
    const { before, after } = bookingsOf("twice");
    await write(before);
    const made = before.map(({ id, isCancelled }) => `${id} ${isCancelled ? "has no form" : "SENT"}`).sort();
    expect(await run(recipe)).toEqual(made);
    const first = await expectForms("twice", before);
    expect(await expectNoChange(recipe)).toEqual(made);

    await write(after);
    const lines = await run(recipe);
    expect(lines).toContain("twice+cancelled CANCELLED");
    expect(lines).toContain("twice+rebooked SENT");
    const second = await expectForms("twice", after);
    expect(second["twice+cancelled"]).toMatchObject({ status: "CANCELLED" });
    for (const [id, form] of Object.entries(first)) expect(second[id]?.publicId).toBe(form.publicId);
    expect(new Set(Object.values(second).map(({ publicId }) => publicId)).size).toBe(6);
    for (const [id, form] of Object.entries(second))
      expect(await countEmails(form), id).toBe(["twice+stays", "twice+late"].includes(id) ? 1 : 0);
    expect(await expectNoChange(recipe)).toEqual(lines);
  });

  const ROUNDS = Array.from({ length: scale(6) }, (_, n) => ({ round: n + 1, position: 2 + ((n * 2) % 11) }));
  it.each(ROUNDS)(
    "killed when request $position was processed, and run again, ends as if it had run once (round $round)",
    async ({ round, position }) => {
      const prefix = `killed-${round}`;
      const { before, after } = bookingsOf(prefix);
      await write(before);
      await killAtRequest(proxy, position, () => start(recipe));
      // In every other round, the bookings have changed before the program runs again.
      if (round % 2 === 0) await run(recipe);
      await write(after);
      await killAtRequest(proxy, position, () => start(recipe));
      await run(recipe);
      await expectForms(prefix, after);
      await expectNoChange(recipe);
    },
  );

  it("creates one form if two programs sync a booking at the same time, and it has changed between them", async () => {
    const { before, after } = bookingsOf("race");
    // Both have looked up all bookings before either creates a form.
    const held: (() => void)[] = [];
    proxy.injectAlways(async (exchange) => {
      if (exchange.request.method === "POST") await new Promise<void>((resolve) => held.push(resolve));
      await passThrough(exchange);
    });
    const programs = [];
    for (const bookings of [before, after]) {
      await write(bookings);
      programs.push(start(recipe));
      await expect.poll(() => held.length).toBe(5 * programs.length);
    }
    for (const release of held) release();
    for (const { done } of programs) expect(await done).toMatchObject({ code: 0, stderr: "" });
    proxy.injectAlways(passThrough);
    await run(recipe);
    await expectForms("race", after);
  });

  it("says which booking was rejected and why, and syncs the others", async () => {
    const { before } = bookingsOf("rejected");
    const [good, bad] = before as [Booking, Booking];
    await write([{ ...bad, checkOut: "2031-08-01T11:00" }, good]);
    const { code, stdout, stderr } = await start(recipe).done;
    expect({ code, stdout }).toEqual({ code: 1, stdout: "rejected+stays SENT\n" });
    expect(stderr).toMatch(/^rejected\+changes .*checkOutDate/);
  });
});

describe("the recipe that catches up every night", async () => {
  const recipe = await writeRecipe(folder, "Catch up every night");
  const { id: userId } = await makeUser(services);
  const { id: listingId } = await makeListing(services, userId);
  const { readOnlyKey: key, userId: otherId } = await gateway.addKeyHolder();
  await operator.members.set({ listingId, userId: otherId, role: "OWNER" });
  const catchUp = { key };
  const forms: FormV1[] = [];
  for (let n = 0; n < 120; n++) forms.push(await makeForm(services, userId, listingId, { externalId: `night-${n}` }));
  const [completed, cancelled, moved, late] = forms as [FormV1, FormV1, FormV1, FormV1];
  const SENT = forms.map(({ externalId }) => `${externalId} SENT`).sort();

  test("tells every change of a status once, also if it was killed, and everything if its file is lost", async () => {
    await killAtRequest(proxy, 2, () => start(recipe, catchUp));
    expect(await run(recipe, catchUp), "of the killed run, nothing is stored").toEqual(SENT);
    const { mark } = JSON.parse(await readFile(join(folder, "changes.json"), "utf8"));
    proxy.requests.length = 0;
    expect(await run(recipe, catchUp)).toEqual([]);
    const since = `updatedSince=${encodeURIComponent(mark)}`;
    expect(proxy.requests.map(({ path }) => path)).toEqual(proxy.requests.map(() => expect.stringContaining(since)));
    expect(proxy.requests).not.toEqual([]);

    await operator.forms.setStatus({ id: completed.id, status: "COMPLETED" });
    await operator.forms.setStatus({ id: cancelled.id, status: "CANCELLED" });
    await killAtRequest(proxy, 1, () => start(recipe, catchUp));
    expect(await run(recipe, catchUp)).toEqual(["night-0 COMPLETED", "night-1 CANCELLED"]);
    expect(await run(recipe, catchUp)).toEqual([]);

    await rm(join(folder, "changes.json"));
    expect(await run(recipe, catchUp)).toHaveLength(forms.length);
    expect(await run(recipe, catchUp)).toEqual([]);
  });

  test("with --all, finds the forms that left the scope and those that entered it", async () => {
    const { id: elsewhere } = await makeListing(services, userId);
    await operator.forms.setStatus({ id: late.id, status: "COMPLETED" });
    const { checkInDate = "", checkOutDate = "", numberOfGuests } = moved;
    const stay = {
      checkInDate: String(checkInDate),
      checkOutDate: String(checkOutDate),
      numberOfGuests: Number(numberOfGuests),
    };
    await gateway.request({
      method: "PUT",
      path: `/v1/forms/${moved.id}`,
      key: (await gateway.issueKey(userId)).key,
      body: { listingId: elsewhere, ...stay },
    });
    const entered = await makeListing(services, userId);
    const old = await makeForm(services, userId, entered.id, { externalId: "old" });
    expect(await run(recipe, catchUp)).toEqual(["night-3 COMPLETED"]);
    await operator.members.set({ listingId: entered.id, userId: otherId, role: "WRITER" });
    const all = { ...catchUp, args: ["--all"] };
    await expect.poll(async () => (await gateway.request({ path: `/v1/forms/${old.id}`, key })).status).toBe(200);
    await killAtRequest(proxy, 1, () => start(recipe, all));
    expect(await run(recipe, all)).toEqual([`${moved.id} left the scope`, "old SENT"].sort());
    expect(await run(recipe, all)).toEqual([]);
  });
});

describe("the recipe about tomorrow's arrivals", async () => {
  const recipe = await writeRecipe(folder, "Who arrives tomorrow and has not registered");
  const { userId } = await gateway.addKeyHolder();
  const { readOnlyKey: key, userId: otherId } = await gateway.addKeyHolder();
  const ZONES = [
    "Pacific/Kiritimati",
    "Europe/Berlin",
    "America/Sao_Paulo",
    "Australia/Lord_Howe",
    "Pacific/Pago_Pago",
  ];

  /** Days from today in a time zone, as `YYYY-MM-DD`. */
  const dayIn = (timeZone: string, days: number) => {
    const today = new Intl.DateTimeFormat("sv", { timeZone }).format();
    return new Date(Date.parse(today) + days * 86_400_000).toISOString().slice(0, 10);
  };
  const allDays = () => ZONES.map((zone) => dayIn(zone, 1)).join();

  test("names the bookings whose tomorrow it is at the listing, in any time zone, also if it was killed, and changes nothing", async () => {
    const expected: string[] = [];
    const makeAll = async (round: string) => {
      for (const timezone of ZONES) {
        const { id: listingId } = await makeListing(services, userId, { timezone });
        await operator.members.set({ listingId, userId: otherId, role: "WRITER" });
        for (const [days, time] of [
          [0, "23:59"],
          [1, "00:01"],
          [1, "15:00"],
          [1, "23:59"],
          [2, "00:00"],
        ] as const) {
          const externalId = `${round} ${timezone} ${days} ${time}`;
          const checkInDate = instantIn(timezone, `${dayIn(timezone, days)}T${time}`);
          const checkOutDate = instantIn(timezone, `${dayIn(timezone, 5)}T11:00`);
          await makeForm(services, userId, listingId, { externalId, checkInDate, checkOutDate });
          if (days === 1) expected.push(externalId);
        }
        const stay = {
          checkInDate: instantIn(timezone, `${dayIn(timezone, 1)}T15:00`),
          externalId: `${round} ${timezone} completed`,
        };
        const { id } = await makeForm(services, userId, listingId, {
          ...stay,
          checkOutDate: instantIn(timezone, `${dayIn(timezone, 6)}T11:00`),
        });
        await operator.forms.setStatus({ id, status: "COMPLETED" });
      }
    };
    // Somewhere midnight may pass during the test: then its days were another round's.
    for (let days = ""; days !== allDays(); ) {
      days = allDays();
      expected.length = 0;
      await makeAll(days);
      await killAtRequest(proxy, 2, () => start(recipe, { key }));
      const found = await expectNoChange(recipe, { key });
      if (days !== allDays()) continue;
      expect(found.filter((line) => line.startsWith(days))).toEqual(expected.sort());
      expect(await run(recipe, { key })).toEqual(found);
    }
  });
});
