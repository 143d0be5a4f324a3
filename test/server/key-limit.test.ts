import { expect, test } from "vitest";
import { MAX_KEYS_PER_FORM } from "../../server/forms/idempotency.js";
import { openTestCore } from "../support/core.js";
import { catchErrorCode } from "../support/factories.js";

const { owner, sql } = await openTestCore();

test("replays with new Idempotency-Keys store at most 10 keys per form; an equal body with another one is always a replay, and the key remains unused", async () => {
  const { body } = owner;
  const { form } = await owner.create(body, "0");
  for (let key = 1; key < MAX_KEYS_PER_FORM + 5; key++) {
    expect(await owner.create(body, `${key}`)).toEqual({ form, replayed: true });
  }
  expect(await sql("SELECT FROM idempotency_keys")).toHaveLength(10);
  await sql("UPDATE forms SET status = 'REJECTED'");
  const again = await owner.create(body, "12");
  expect(again, "a retry, which cannot be told from a rebooked stay").toEqual({ form, replayed: true });
  const other = { ...body, numberOfGuests: 9 };
  expect(await catchErrorCode(owner.create(other, "9"))).toBe("IDEMPOTENCY_KEY_REUSED");
  expect((await owner.create(other, "10")).replayed).toBe(false);
  expect(await catchErrorCode(owner.create(body, "10"))).toBe("IDEMPOTENCY_KEY_REUSED");
  expect((await owner.create(body, "0")).form).toEqual(form);
});
