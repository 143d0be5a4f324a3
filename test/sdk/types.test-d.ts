// Compiled, not run: the SDK's types must equal those inferred from the tRPC router.
import type { inferRouterInputs, inferRouterOutputs } from "@trpc/server";
import { expectTypeOf } from "vitest";
import type {
  FormInput,
  FormListParams,
  FormStatus,
  FormUpdate,
  FormV1,
  GuestForms,
  KnownErrorCode,
  KnownFormStatus,
  Listing,
  ListParams,
  Page,
  WithCorrelationId,
} from "../../sdk/src/index.js";
import { signWebhook, unwrapWebhook, type WebhookEvent } from "../../sdk/src/webhooks.js";
import type { ErrorCode as ServiceErrorCode } from "../../server/errors.js";
import type { AppRouter } from "../../server/router.js";
import type { WebhookEvent as ServiceEvent } from "../../server/webhooks/event-schema.js";

type Forms = { in: inferRouterInputs<AppRouter>["forms"]; out: inferRouterOutputs<AppRouter>["forms"] };
type Listings = { in: inferRouterInputs<AppRouter>["listings"]; out: inferRouterOutputs<AppRouter>["listings"] };

/** What a call resolves to, without what the SDK adds and with the known statuses only. */
type Result<Call extends (...args: never[]) => PromiseLike<unknown>> = KnownStatusOnly<
  Flat<Omit<Awaited<ReturnType<Call>>, "_correlationId" | "_replayed">>
>;
type KnownStatusOnly<T> = T extends { status: FormStatus } ? Omit<T, "status"> & { status: KnownFormStatus } : T;
/** An input as sent: a Date becomes a string. */
type Sent<T> = { [Key in keyof T]: Exclude<T[Key], Date> };
/** Flattens intersections, so that types compare exactly. */
type Flat<T> = { [Key in keyof T]: T[Key] };

declare const client: GuestForms;
const { forms, listings } = client;

expectTypeOf<Flat<Result<typeof forms.create>>>().toEqualTypeOf<Forms["out"]["create"]>();
expectTypeOf<Flat<Result<typeof forms.update>>>().toEqualTypeOf<Forms["out"]["update"]>();
expectTypeOf<Flat<Result<typeof forms.retrieve>>>().toEqualTypeOf<Forms["out"]["get"]>();
expectTypeOf<Result<typeof listings.retrieve>>().toEqualTypeOf<Listings["out"]["get"]>();

expectTypeOf<Awaited<ReturnType<typeof forms.list>>>().toEqualTypeOf<Page<FormV1>>();
expectTypeOf<Awaited<ReturnType<typeof listings.list>>>().toEqualTypeOf<Page<Listing>>();
expectTypeOf<Page<FormV1>["nextCursor"]>().toEqualTypeOf<Forms["out"]["list"]["nextCursor"]>();

expectTypeOf<Sent<FormInput>>().toEqualTypeOf<Forms["in"]["create"]>();
expectTypeOf<Flat<Sent<FormUpdate> & { id: string }>>().toEqualTypeOf<Flat<Forms["in"]["update"]>>();
expectTypeOf<Sent<FormListParams>>().toEqualTypeOf<Flat<NonNullable<Forms["in"]["list"]>>>();
expectTypeOf<ListParams>().toEqualTypeOf<Flat<NonNullable<Listings["in"]["list"]>>>();
expectTypeOf<Parameters<typeof forms.retrieve>[0]>().toEqualTypeOf<Forms["in"]["get"]["id"]>();

expectTypeOf<Awaited<ReturnType<typeof forms.create>>["_correlationId"]>().toEqualTypeOf<string | undefined>();
expectTypeOf<Awaited<ReturnType<typeof forms.create>>["_replayed"]>().toEqualTypeOf<boolean | undefined>();
expectTypeOf<Awaited<ReturnType<typeof forms.list>>["_correlationId"]>().toEqualTypeOf<string | undefined>();
expectTypeOf(client.request<FormV1[]>("GET", "/v1/x")).resolves.toEqualTypeOf<WithCorrelationId<FormV1[]>>();
expectTypeOf(client.request("GET", "/v1/x")).resolves.toEqualTypeOf<unknown>();
expectTypeOf(client.forms.retrieve("a").asResponse()).resolves.toEqualTypeOf<Response>();

client.withOptions({ fetchOptions: { dispatcher: {}, keepalive: true } });
// @ts-expect-error: set by the SDK, because a redirect would receive the key
client.withOptions({ fetchOptions: { redirect: "follow" } });
// @ts-expect-error: undefined must not fall back to another host's key
client.withOptions({ apiKey: undefined });

expectTypeOf<KnownErrorCode>().toEqualTypeOf<ServiceErrorCode>();

/** An event with the known statuses only, as the service declares it. */
type KnownEvent<E extends WebhookEvent> = E extends WebhookEvent
  ? { type: E["type"]; timestamp: string; sentAt: string; data: KnownData<E["data"]> }
  : never;
type KnownData<Data> = {
  [Key in keyof Data]: [Data[Key]] extends [never]
    ? never
    : Data[Key] extends FormV1
      ? Flat<KnownStatusOnly<FormV1>>
      : [Data[Key]] extends [FormStatus]
        ? KnownFormStatus
        : Data[Key];
};
expectTypeOf<KnownEvent<WebhookEvent>>().toEqualTypeOf<ServiceEvent>();

declare const request: Request;
const event = await unwrapWebhook("{}", request.headers, ["whsec_a", "whsec_b"]);
expectTypeOf(event).toEqualTypeOf<WebhookEvent>();
switch (event.type) {
  case "form.created":
    expectTypeOf(event.data.form).toEqualTypeOf<FormV1>();
    // @ts-expect-error: a created form has no changed fields
    event.data.fields;
    break;
  case "form.updated":
  case "form.party_changed":
    expectTypeOf(event.data.fields).toEqualTypeOf<string[]>();
    break;
  case "form.moved":
    expectTypeOf(event.data.previousListingId).toEqualTypeOf<string | null>();
    break;
  case "form.status_changed":
    expectTypeOf(event.data.from).toEqualTypeOf<FormStatus>();
    expectTypeOf(event.data.to).toEqualTypeOf<FormStatus>();
    break;
  case "form.cancelled":
    expectTypeOf(event.data.from).toEqualTypeOf<FormStatus>();
    break;
  case "webhook.test":
    // @ts-expect-error: a test has no form
    event.data.form.id;
    break;
  default:
    expectTypeOf(event).toEqualTypeOf<never>();
}
// @ts-expect-error: the body of `express.json()` is already parsed
unwrapWebhook({ type: "form.created" }, {}, "whsec_a");
// @ts-expect-error: an environment variable may be missing
unwrapWebhook("{}", {}, process.env.WEBHOOK_SECRET);
// @ts-expect-error: the event has no data
signWebhook({ type: "form.created", timestamp: "" }, "whsec_a");
