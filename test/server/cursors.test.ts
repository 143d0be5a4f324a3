import { createHmac, randomUUID } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import type { Caller } from "../../server/caller.js";
import type { Services } from "../../server/context.js";
import type { FormV1 } from "../../server/forms/schema.js";
import {
  asKey,
  asUser,
  catchErrorCode,
  catchRejectedFields,
  catchServiceError,
  makeForm,
  makeKey,
  openTestServices,
  setRole,
  TEST_SECRET,
  withSecrets,
} from "../support/factories.js";
import { makeListingOwner } from "../support/listing-owner.js";

let services: Services;
let ownerId: string;
let caller: Caller;
let listings: string[];
let forms: FormV1[];
let formsCursor: string;
let listingsCursor: string;
let filteredCursor: string;

const expectCursor = (cursor: string | null): string => {
  if (cursor === null) throw new Error("there is no next page");
  return cursor;
};

beforeAll(async () => {
  services = await openTestServices();
  const owner = await makeListingOwner(services);
  ownerId = owner.userId;
  caller = asUser(services, ownerId);
  listings = [owner.listingId, (await owner.addListing()).id, (await owner.addListing()).id];
  forms = [];
  for (let index = 0; index < 6; index++) {
    forms.push(await makeForm(services, ownerId, listings[index % 2] ?? ""));
  }
  formsCursor = expectCursor((await caller.forms.list({ limit: 2 })).nextCursor);
  listingsCursor = expectCursor((await caller.listings.list({ limit: 1 })).nextCursor);
  filteredCursor = expectCursor((await caller.forms.list({ limit: 1, listingId: listings[0] })).nextCursor);
});

const ids = ({ items }: { items: { id: string }[] }) => items.map(({ id }) => id);

describe("limit", () => {
  test.each([
    [0, 1],
    [-7, 1],
    [Number.MIN_SAFE_INTEGER, 1],
    [1, 1],
    [3, 3],
    [100, 6],
  ])("limit %d returns %d of six forms", async (limit, size) => {
    const page = await caller.forms.list({ limit });
    expect(ids(page)).toEqual(forms.slice(0, size).map(({ id }) => id));
    expect(page.nextCursor === null).toBe(size === 6);
    expect(ids(await caller.listings.list({ limit }))).toEqual(listings.slice(0, size));
  });

  test.each([[2.5], [Number.NaN], [Number.POSITIVE_INFINITY], ["2"], [""], [null], [true]])(
    "limit %o is rejected",
    async (limit) => {
      const input = { limit: limit as number };
      expect(await catchRejectedFields(caller.forms.list(input))).toEqual(["limit"]);
      expect(await catchRejectedFields(caller.listings.list(input))).toEqual(["limit"]);
    },
  );

  test("the last page has no nextCursor, even if it is full", async () => {
    expect((await caller.forms.list({ limit: 6 })).nextCursor).toBeNull();
    expect((await caller.forms.list({ limit: 4, cursor: formsCursor })).nextCursor).toBeNull();
    expect((await caller.listings.list({ limit: 3 })).nextCursor).toBeNull();
  });

  test("unknown and invalid parameters are rejected by name", async () => {
    const misspelled = { listingID: listings[0] } as { listingId?: string };
    expect(await catchRejectedFields(caller.forms.list(misspelled))).toEqual(["listingID"]);
    expect(await catchRejectedFields(caller.listings.list({ listingId: listings[0] } as object))).toEqual([
      "listingId",
    ]);
    expect(await catchRejectedFields(caller.forms.list({ limit: 0.5, listingId: "x" }))).toEqual([
      "limit",
      "listingId",
    ]);
    expect(await catchRejectedFields(caller.forms.list({ listingId: "" }))).toEqual(["listingId"]);
  });
});

describe("a cursor", () => {
  test("continues where the page ended, with any limit and for any principal", async () => {
    const rest = forms.slice(2).map(({ id }) => id);
    expect(ids(await caller.forms.list({ cursor: formsCursor }))).toEqual(rest);
    expect(ids(await caller.forms.list({ cursor: formsCursor, limit: 1 }))).toEqual(rest.slice(0, 1));
    const key = await makeKey(services, ownerId, { mode: "READ_ONLY" });
    expect(ids(await asKey(services, key).forms.list({ cursor: formsCursor, limit: 100 }))).toEqual(rest);
    const filtered = await caller.forms.list({ cursor: filteredCursor, listingId: listings[0] });
    expect(ids(filtered)).toEqual([forms[2]?.id, forms[4]?.id]);
    const upper = { cursor: filteredCursor, listingId: listings[0]?.toUpperCase() };
    expect(await caller.forms.list(upper)).toEqual(filtered);
    expect(ids(await caller.listings.list({ cursor: listingsCursor }))).toEqual(listings.slice(1));
  });

  test("of another key holder works, within the scope of the sender", async () => {
    const other = await makeListingOwner(services);
    await setRole(services, listings[1] ?? "", other.userId, "WRITER");
    const form = await other.addForm();
    const key = await makeKey(services, other.userId);
    const page = await asKey(services, key).forms.list({ cursor: formsCursor });
    expect(ids(page)).toEqual([forms[3]?.id, forms[5]?.id, form.id]);
    const empty = await asUser(services, randomUUID()).forms.list({ cursor: formsCursor });
    expect(empty).toEqual({ items: [], nextCursor: null });
  });

  test("works after the form it points at was deleted", async () => {
    const owner = await makeListingOwner(services);
    const [first, ...others] = [await owner.addForm(), await owner.addForm(), await owner.addForm()];
    const { nextCursor } = await owner.forms.list({ limit: 1 });
    await services.db.pool.query("DELETE FROM forms WHERE id = $1", [first?.id]);
    const rest = await owner.forms.list({ cursor: expectCursor(nextCursor) });
    expect(ids(rest)).toEqual(others.map(({ id }) => id));
  });

  test("is valid only for its list and listingId filter", async () => {
    const misuses = [
      caller.listings.list({ cursor: formsCursor }),
      caller.listings.list({ cursor: filteredCursor }),
      caller.forms.list({ cursor: listingsCursor }),
      caller.forms.list({ cursor: listingsCursor, listingId: listings[0] }),
      caller.forms.list({ cursor: formsCursor, listingId: listings[0] }),
      caller.forms.list({ cursor: filteredCursor }),
      caller.forms.list({ cursor: filteredCursor, listingId: listings[1] }),
    ];
    for (const call of misuses) {
      expect(await catchServiceError(call)).toEqual({
        serviceCode: "INVALID_CURSOR",
        code: "BAD_REQUEST",
        status: 400,
        message: "Invalid cursor. Use a `nextCursor` returned by this endpoint with the same filters.",
        errors: undefined,
        retryAfter: undefined,
      });
    }
  });

  test("is invalid if any of its bytes is changed", async () => {
    const bytes = Buffer.from(formsCursor, "base64url");
    for (let index = 0; index < bytes.length; index++) {
      const altered = Buffer.from(bytes);
      altered.writeUInt8((bytes.readUInt8(index) + 1) % 256, index);
      const cursor = altered.toString("base64url");
      expect([index, await catchErrorCode(caller.forms.list({ cursor }))]).toEqual([index, "INVALID_CURSOR"]);
    }
  });

  test("is invalid if any of its characters is changed, dropped, doubled or encoded differently", async () => {
    const others = new Set<string>();
    for (let index = 0; index < formsCursor.length; index++) {
      const [head, tail] = [formsCursor.slice(0, index), formsCursor.slice(index + 1)];
      const at = formsCursor.charAt(index);
      for (const other of ["", "A", "B", "_", "=", " ", "\n", at + at, at.toLowerCase(), at.toUpperCase()]) {
        others.add(head + other + tail);
      }
      others.add(head);
      others.add(formsCursor.slice(index + 1));
    }
    // The last character has unused bits, so other characters decode to the same bytes.
    const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for (const last of alphabet) others.add(formsCursor.slice(0, -1) + last);
    for (const other of [
      `${formsCursor}=`,
      `${formsCursor}==`,
      ` ${formsCursor}`,
      `${formsCursor}\u0000`,
      formsCursor + formsCursor,
      Buffer.from(formsCursor, "base64url").toString("base64"),
      Buffer.from(formsCursor, "base64url").toString("hex"),
      encodeURIComponent(`${formsCursor}+`),
      "null",
      "0",
      "%",
    ]) {
      others.add(other);
    }
    others.delete(formsCursor);
    for (const cursor of others) {
      expect([cursor, await catchErrorCode(caller.forms.list({ cursor }))]).toEqual([
        cursor,
        "INVALID_CURSOR",
      ]);
    }
    expect(await catchErrorCode(caller.listings.list({ cursor: "" }))).toBe("INVALID_CURSOR");
  });

  test("is checked before the scope of the listingId", async () => {
    for (const listingId of [listings[0], listings[1], randomUUID()]) {
      expect(await catchErrorCode(caller.forms.list({ cursor: "x", listingId }))).toBe("INVALID_CURSOR");
    }
    const stranger = asUser(services, randomUUID());
    const call = stranger.forms.list({ cursor: formsCursor, listingId: listings[0] });
    expect(await catchErrorCode(call)).toBe("INVALID_CURSOR");
  });

  test("of a listing that is out of scope returns an empty page", async () => {
    const stranger = asUser(services, randomUUID());
    const page = await stranger.forms.list({ cursor: filteredCursor, listingId: listings[0] });
    expect(page).toEqual({ items: [], nextCursor: null });
  });

  test("is valid while APP_SECRETS lists the secret that signed it, and invalid afterwards", async () => {
    const newSecret = "n".repeat(32);
    const rotated = withSecrets(services, newSecret, TEST_SECRET);
    const rotatedCaller = asUser(rotated, ownerId);
    const page = await rotatedCaller.forms.list({ cursor: formsCursor, limit: 2 });
    expect(ids(page)).toEqual([forms[2]?.id, forms[3]?.id]);
    expect(await catchErrorCode(caller.forms.list({ cursor: expectCursor(page.nextCursor) }))).toBe(
      "INVALID_CURSOR",
    );
    const withoutOld = withSecrets(services, newSecret);
    const call = asUser(withoutOld, ownerId).forms.list({ cursor: formsCursor });
    expect(await catchErrorCode(call)).toBe("INVALID_CURSOR");
    const next = await asUser(withoutOld, ownerId).forms.list({ cursor: expectCursor(page.nextCursor) });
    expect(ids(next)).toEqual([forms[4]?.id, forms[5]?.id]);
  });

  test("of another version is invalid, even with a valid signature", async () => {
    const signed = (version: number) => {
      const body = Buffer.from(formsCursor, "base64url").subarray(0, 25);
      body.writeUInt8(version, 0);
      const mac = createHmac("sha256", services.keyring.cursor[0]).update("forms::").update(body).digest();
      return Buffer.concat([body, mac.subarray(0, 16)]).toString("base64url");
    };
    expect(signed(1)).toBe(formsCursor);
    for (const version of [0, 2, 255]) {
      expect(await catchErrorCode(caller.forms.list({ cursor: signed(version) }))).toBe("INVALID_CURSOR");
    }
  });
});
