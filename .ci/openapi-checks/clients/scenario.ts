/** The part of a form, and of an error, that the scenario reads. A generated type without it does not compile. */
interface Form {
  id: string;
  status: string;
  externalId?: string | null | undefined;
  numberOfGuests?: number | null | undefined;
}
interface Fault {
  code: string;
  errors?: { field: string; issue: string }[] | undefined;
}
interface Page {
  items: Form[];
  nextCursor?: string | null | undefined;
}

/** The body of a create or an update. */
interface Stay {
  listingId: string;
  checkInDate: string;
  checkOutDate: string;
  numberOfGuests: number;
  externalId: string | null;
}

interface Answer<T> {
  status: number;
  data: T | Fault;
}

/** The operations of a generated client. It takes the server's URL from the document, and has the headers as its defaults. */
interface Api {
  create(body: Stay, idempotencyKey: string): Promise<Answer<Form>>;
  list(listingId: string, limit: number): Promise<Answer<Page>>;
  get(id: string): Promise<Answer<Form>>;
  update(id: string, body: Stay): Promise<Answer<Form>>;
}

const { GUEST_FORMS_API_KEY: key = "", LISTING_ID: listingId = "" } = process.env;

export const headers = { Authorization: `Bearer ${key}` };

/** The answer of a client that returns `data` or `error`. */
export function answerOf<T>(result: {
  data?: T | undefined;
  error?: Fault | undefined;
  response?: { status: number } | undefined;
}): Answer<T> {
  const data = result.data ?? result.error;
  if (data === undefined || !result.response) throw new Error("the client returned no body");
  return { status: result.response.status, data };
}

/** Prints what the service answers to a create, its repetition, a list, a fetch, an update and two requests that fail. */
export async function runScenario(name: string, api: Api): Promise<void> {
  const stay = {
    listingId,
    checkInDate: "2027-07-01T15:00:00+02:00",
    checkOutDate: "2027-07-08T11:00:00+02:00",
    numberOfGuests: 4,
    externalId: name,
  };
  const created = await api.create(stay, name);
  const form = resultOf(created);
  const repeated = await api.create(stay, name);
  const listed = await api.list(listingId, 100);
  const fetched = await api.get(form.id);
  const updated = await api.update(form.id, { ...stay, externalId: null, numberOfGuests: 2 });
  const missing = await api.get("00000000-0000-4000-8000-000000000000");
  const invalid = await api.create({ ...stay, checkOutDate: stay.checkInDate }, "invalid");
  console.log(
    JSON.stringify({
      created: [created.status, form.status, form.numberOfGuests, form.externalId],
      repeated: [repeated.status, resultOf(repeated).id === form.id],
      listed: [listed.status, resultOf(listed).items.filter(({ id }) => id === form.id).length],
      fetched: [fetched.status, resultOf(fetched).id === form.id],
      updated: [updated.status, resultOf(updated).numberOfGuests, resultOf(updated).externalId],
      missing: [missing.status, faultOf(missing).code],
      invalid: [invalid.status, faultOf(invalid).code, faultOf(invalid).errors?.map(({ field }) => field)],
    }),
  );
}

function resultOf<T extends object>({ status, data }: Answer<T>): T {
  if ("code" in data) throw new Error(`${status} ${data.code}`);
  return data;
}

function faultOf<T extends object>({ status, data }: Answer<T>): Fault {
  if ("code" in data) return data;
  throw new Error(`${status} is no error`);
}
