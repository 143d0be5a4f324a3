import { expect, test } from "vitest";
import { openTestCore } from "../support/core.js";
import { catchRejectedFields, makeForm } from "../support/factories.js";
import { setState } from "../support/outbox-queue.js";

const { services, owner, operator, makeUser, sql } = await openTestCore();

test("forms.listAll returns who arrives within some days and has not registered, and forms by the state of their last invitation", async () => {
  const HOUR_MS = 3_600_000;
  const made = new Map<string, string>();
  const at = (hours: number) => new Date(Date.now() + hours * HOUR_MS).toISOString();
  const add = async (name: string, hours: number, status: string, emailState: string) => {
    const stay = { checkInDate: at(hours), checkOutDate: at(hours + 48), guestEmail: "guest@example.com" };
    const { id } = await makeForm(services, owner.userId, owner.listingId, stay);
    await sql("UPDATE forms SET status = $2 WHERE id = $1", id, status);
    await sql(setState("emails", emailState, "form_id = $1"), id);
    made.set(id, name);
  };
  await add("here", -1, "SENT", "sent");
  await add("tomorrow", 23, "SENT", "failed");
  await add("registered", 24, "COMPLETED", "bounced");
  await add("in three days", 71, "SENT", "sent");
  await add("later", 73, "SENT", "failed");
  const list = async (input: Parameters<typeof operator.forms.listAll>[0]) => {
    const { items } = await operator.forms.listAll({ listingId: owner.listingId, ...input });
    return items.flatMap(({ id, emailState }) => (made.has(id) ? [`${made.get(id)}: ${emailState}`] : []));
  };
  expect(await list({ arrivesWithinDays: 1 })).toEqual(["tomorrow: failed"]);
  expect(await list({ arrivesWithinDays: 3 })).toEqual(["in three days: sent", "tomorrow: failed"]);
  expect(await list({ arrivesWithinDays: 3, emailState: "failed" })).toEqual(["tomorrow: failed"]);
  expect(await list({ emailState: "failed" })).toEqual(["later: failed", "tomorrow: failed"]);
  expect(await list({ emailState: "failed", limit: 1 })).toEqual(["later: failed"]);
  expect(await list({ emailState: "bounced", status: "COMPLETED" })).toEqual(["registered: bounced"]);
  expect(await list({ emailState: "failed", userId: (await makeUser()).id })).toEqual([]);
  const [{ id: sentAgain } = { id: "" }] = (await operator.forms.listAll({ emailState: "bounced" })).items;
  await sql("UPDATE forms SET status = 'SENT' WHERE id = $1", sentAgain);
  await operator.emails.send({ formId: sentAgain });
  expect(await list({ emailState: "bounced" })).toEqual([]);
  expect(await list({ emailState: "waiting" })).toEqual(["registered: waiting"]);
  for (const arrivesWithinDays of [0, 61, 1.5, -1])
    expect(await catchRejectedFields(operator.forms.listAll({ arrivesWithinDays }))).toEqual(["arrivesWithinDays"]);
  expect(await catchRejectedFields(operator.forms.listAll({ emailState: "sent" as "failed" }))).toEqual(["emailState"]);
});
