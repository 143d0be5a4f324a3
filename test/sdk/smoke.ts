// What every platform must be able to do. Bundled and run there, so it uses nothing but the SDK and the platform's own.
import {
  AbortError,
  GuestForms,
  ResourceNotFoundError,
  TimeoutError,
  ValidationError,
} from "../../sdk/src/index.js";

export interface SmokeOptions {
  apiKey: string;
  baseUrl: string;
  /** A stay that nobody else has. */
  checkInDate: string;
}

/** Does all six operations and meets the usual errors; answers with facts, all of them true where all is well. */
export async function smoke({
  apiKey,
  baseUrl,
  checkInDate,
}: SmokeOptions): Promise<Record<string, boolean>> {
  const client = new GuestForms({ apiKey, baseUrl, timeout: 20_000 });
  const rejected = async (call: PromiseLike<unknown>): Promise<unknown> => {
    try {
      await call;
    } catch (error) {
      return error;
    }
    return undefined;
  };

  const [listing] = (await client.listings.list({ limit: 1 })).items;
  const listingId = listing?.id ?? "";
  const checkIn = new Date(checkInDate);
  const stay = {
    listingId,
    checkInDate: checkIn,
    checkOutDate: new Date(checkIn.getTime() + 3 * 86_400_000),
    numberOfGuests: 2,
  };
  const { data: form, response } = await client.forms.create(stay).withResponse();
  const again = await client.forms.create(stay).withResponse();
  const other = await client.forms.create({ ...stay, numberOfGuests: 1 });
  const updated = await client.forms.update(form.id, { ...stay, numberOfGuests: 3 });
  const ids: string[] = [];
  for await (const item of client.forms.list({ listingId, limit: 1 })) ids.push(item.id);
  const invalid = await rejected(client.forms.create({ ...stay, checkOutDate: checkIn }));
  const missing = await rejected(client.forms.retrieve("00000000-0000-4000-8000-000000000000"));
  const silent = new GuestForms({ apiKey, baseUrl, timeout: 50, fetch: () => new Promise(() => {}) });
  const late = await rejected(silent.listings.list());
  const controller = new AbortController();
  controller.abort(new Error("enough"));
  const aborted = await rejected(client.forms.retrieve(form.id, { signal: controller.signal }));

  const raw = await client.forms.retrieve(form.id).asResponse();
  const requested = await client.request<{ id: string }>("GET", `/v1/forms/${form.id}`);
  const asked = await client.withOptions({ apiKey: async () => apiKey }).listings.list();

  return {
    "creates a form": response.status === 201 && form.status === "SENT",
    "reads the correlation id": /^[0-9a-f-]{36}$/.test(response.headers["x-correlation-id"] ?? ""),
    "puts it on the result": form._correlationId === response.headers["x-correlation-id"],
    "gives the platform's response": raw instanceof Response && JSON.parse(await raw.text()).id === form.id,
    "requests any path": requested.id === form.id,
    "asks for the key": asked.items.length > 0,
    "replays an equal create": again.replayed && again.data.id === form.id,
    "updates it": updated.numberOfGuests === 3,
    "retrieves it": (await client.forms.retrieve(form.id)).createdAt === form.createdAt,
    "lists over pages": ids.indexOf(form.id) >= 0 && ids.indexOf(other.id) > ids.indexOf(form.id),
    "retrieves the listing": (await client.listings.retrieve(listingId)).title === listing?.title,
    "names rejected fields":
      invalid instanceof ValidationError && invalid.errors[0]?.field === "checkOutDate",
    "finds nothing": missing instanceof ResourceNotFoundError && missing.correlationId !== undefined,
    "keeps the deadline": late instanceof TimeoutError,
    "stops on abort": aborted instanceof AbortError && (aborted.cause as Error).message === "enough",
    "hides the key": !JSON.stringify(client).includes(apiKey),
  };
}
