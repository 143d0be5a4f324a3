import { expect, test, vi } from "vitest";
import { AbortError, type Fetch, GuestFormsError, ValidationError } from "../../sdk/src/index.js";
import { asOperator } from "../support/factories.js";
import { passThrough, resetAfterProcessing } from "./fault-proxy.js";
import { rejection, useGateway } from "./setup.js";

const context = await useGateway();
const requests = () => context.proxy.requests.map(({ method, path }) => `${method} ${path}`);

/** Creates a form, and forgets the request. */
async function createOne() {
  const form = await context.client().forms.create({ ...context.uniqueStay(), externalId: "booking-7" });
  context.proxy.requests.length = 0;
  return { form, path: `/v1/forms/${form.id}` };
}

test("cancel reads the form, and sends its stay with cancelled", async () => {
  const { form, path } = await createOne();
  const { data, response, replayed } = await context.client().forms.cancel(form.id).withResponse();
  expect(requests()).toEqual([`GET ${path}`, `PUT ${path}`]);
  const { listingId, checkInDate, checkOutDate, numberOfGuests } = form;
  const [get, put] = context.proxy.requests;
  expect(get?.body).toBe("");
  expect(JSON.parse(put?.body ?? "")).toEqual({
    listingId,
    checkInDate,
    checkOutDate,
    numberOfGuests,
    cancelled: true,
  });
  expect(data).toEqual({ ...form, status: "CANCELLED", updatedAt: data.updatedAt });
  expect(Date.parse(data.updatedAt)).toBeGreaterThan(Date.parse(form.updatedAt));
  expect([response.status, replayed]).toEqual([200, false]);
  expect(data._correlationId).toBe(response.headers["x-correlation-id"]);
  expect(await context.client().forms.retrieve(form.id)).toEqual(data);
});

test("cancelling twice changes nothing, also if the first response was lost", async () => {
  const { form, path } = await createOne();
  context.proxy.injectNext(passThrough, resetAfterProcessing);
  const first = await context.client().forms.cancel(form.id);
  expect(requests()).toEqual([`GET ${path}`, `PUT ${path}`, `PUT ${path}`]);
  expect(await context.client().forms.cancel(form.id)).toEqual(first);
});

test("the options of the call apply to both requests", async () => {
  const { form } = await createOne();
  const options = { apiKey: context.readWrite, headers: { "x-a": "b" }, maxRetries: 0 };
  await context.client({ apiKey: "grf_rw_none", maxConcurrency: 1 }).forms.cancel(form.id, options);
  expect(context.proxy.requests.map(({ headers }) => headers["x-a"])).toEqual(["b", "b"]);
});

test("an unknown form is a ResourceNotFoundError, and nothing is written", async () => {
  const path = "/v1/forms/00000000-0000-4000-8000-000000000001";
  const error = await rejection(context.client().forms.cancel(path.slice(-36)));
  expect(error).toMatchObject({ name: "ResourceNotFoundError", status: 404, message: expect.stringMatching(/^GET /) });
  expect(requests()).toEqual([`GET ${path}`]);
});

test("a read-only key is a ForbiddenError", async () => {
  const { form } = await createOne();
  const error = await rejection(context.client({ apiKey: context.readOnly }).forms.cancel(form.id));
  expect(error).toMatchObject({ name: "ForbiddenError", message: expect.stringMatching(/^PUT /) });
  expect(await context.client().forms.retrieve(form.id)).toEqual(form);
});

test("a form that is CHECKED_OUT is a ValidationError", async () => {
  const { form } = await createOne();
  const operator = asOperator(await context.gateway.services());
  await operator.forms.setStatus({ id: form.id, status: "CHECKED_OUT" });
  const error = await rejection(context.client().forms.cancel(form.id));
  expect(error).toBeInstanceOf(ValidationError);
  expect(error).toMatchObject({ code: "VALIDATION_ERROR", errors: [{ field: "cancelled" }] });
  expect((await context.client().forms.retrieve(form.id)).status).toBe("CHECKED_OUT");
});

test.each(["", " ", ".", "..", undefined, 7])("the id %j is rejected before any request", async (id) => {
  const fetch = vi.fn();
  const error = await rejection(context.client({ fetch }).forms.cancel(id as string));
  expect(error).toBeInstanceOf(GuestFormsError);
  expect((error as Error).message).toMatch(/requires an id/);
  expect(fetch).not.toHaveBeenCalled();
});

test("an abort before the call sends nothing; one after the GET sends no PUT", async () => {
  const { form, path } = await createOne();
  const reason = new Error("changed my mind");
  const aborted = context.client().forms.cancel(form.id, { signal: AbortSignal.abort(reason) });
  expect(await rejection(aborted)).toMatchObject({ name: "AbortError", cause: reason });
  expect(requests()).toEqual([]);

  const controller = new AbortController();
  const fetch: Fetch = async (...request) => {
    const response = await (globalThis.fetch as Fetch)(...request);
    const text = await response.text();
    controller.abort(reason);
    return new Response(text, { status: response.status });
  };
  const late = await rejection(context.client({ fetch }).forms.cancel(form.id, { signal: controller.signal }));
  expect(late).toBeInstanceOf(AbortError);
  expect(late).toMatchObject({ cause: reason });
  expect(requests()).toEqual([`GET ${path}`]);
  expect(await context.client().forms.retrieve(form.id)).toEqual(form);
});
