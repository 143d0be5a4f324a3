// What must work on every runtime. Bundled and run there, so it uses only the SDK and platform globals.
import {
  AbortError,
  ApiError,
  GuestForms,
  ResourceNotFoundError,
  TimeoutError,
  ValidationError,
} from "../../sdk/src/index.js";
import { signWebhook, unwrapWebhook, WebhookVerificationError } from "../../sdk/src/webhooks.js";

/** `checkInDate` is unique per run, because equal creates are replayed. */
type SmokeOptions = Record<"apiKey" | "baseUrl" | "checkInDate", string>;

/** Runs all operations and the common errors, and verifies webhooks. Returns checks by name; true means passed. */
export async function smoke(options: SmokeOptions): Promise<Record<string, boolean>> {
  const { apiKey, baseUrl } = options;
  const client = new GuestForms({ apiKey, baseUrl, timeout: 20_000 });
  const rejected = (call: PromiseLike<unknown>) =>
    call.then(
      () => undefined,
      (error: unknown) => error,
    );

  const [listing] = (await client.listings.list({ limit: 1 })).items;
  const listingId = listing?.id ?? "";
  const checkInDate = new Date(options.checkInDate);
  const checkOutDate = new Date(checkInDate.getTime() + 3 * 86_400_000);
  const stay = { listingId, checkInDate, checkOutDate, numberOfGuests: 2 };
  const { data: form, response } = await client.forms.create(stay).withResponse();
  const again = await client.forms.create(stay).withResponse();
  const other = await client.forms.create({ ...stay, numberOfGuests: 1 });
  const updated = await client.forms.update(form.id, { ...stay, numberOfGuests: 3 });
  const ids: string[] = [];
  for await (const item of client.forms.list({ listingId, limit: 1 })) ids.push(item.id);
  const invalid = await rejected(client.forms.create({ ...stay, checkOutDate: checkInDate }));
  const missing = await rejected(client.forms.retrieve("00000000-0000-4000-8000-000000000000"));
  const hanging = new GuestForms({ apiKey, baseUrl, timeout: 50, fetch: () => new Promise(() => {}) });
  const timedOut = await rejected(hanging.listings.list());
  const large = () => Promise.resolve(new Response(new Blob(Array(11).fill(new Uint8Array(1_000_000)))));
  const tooLarge = await rejected(new GuestForms({ apiKey, baseUrl, fetch: large }).listings.list());
  const controller = new AbortController();
  controller.abort(new Error("enough"));
  const aborted = await rejected(client.forms.retrieve(form.id, { signal: controller.signal }));
  const raw = await client.forms.retrieve(form.id).asResponse();

  const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
  const event = { type: "form.created", timestamp: form.createdAt, sentAt: form.createdAt, data: { form } } as const;
  const { body, headers } = await signWebhook(event, secret);
  const { headers: sentHeaders } = new Request(baseUrl, { headers });
  const bytes = new TextEncoder().encode(body);
  const unwrapped = await Promise.all([body, bytes].map((raw) => unwrapWebhook(raw, sentHeaders, secret)));
  const forged = await rejected(unwrapWebhook(body.replace("SENT", "COMPLETED"), sentHeaders, secret));

  return {
    "creates a form": response.status === 201 && form.status === "SENT",
    "adds the correlation id to the result": form._correlationId === response.headers["x-correlation-id"],
    "returns the platform's Response": raw instanceof Response && JSON.parse(await raw.text()).id === form.id,
    "replays an equal create": again.replayed && again.data.id === form.id,
    "updates a form": updated.numberOfGuests === 3,
    "retrieves a form": (await client.forms.retrieve(form.id)).createdAt === form.createdAt,
    "lists all pages": ids.indexOf(form.id) >= 0 && ids.indexOf(other.id) > ids.indexOf(form.id),
    "retrieves a listing": (await client.listings.retrieve(listingId)).title === listing?.title,
    "reports rejected fields": invalid instanceof ValidationError && invalid.errors[0]?.field === "checkOutDate",
    "rejects with ResourceNotFoundError": missing instanceof ResourceNotFoundError,
    "rejects with TimeoutError": timedOut instanceof TimeoutError,
    "rejects a body of 11 MB": tooLarge instanceof ApiError && tooLarge.message.includes("more than 10 MB"),
    "rejects with AbortError": aborted instanceof AbortError && (aborted.cause as Error).message === "enough",
    "unwraps webhooks": unwrapped.every((one) => one.type === event.type && one.data.form.id === form.id),
    "rejects forged webhooks": forged instanceof WebhookVerificationError && forged.reason === "bad_signature",
    "hides the key": !JSON.stringify(client).includes(apiKey),
  };
}
