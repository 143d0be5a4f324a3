import type { FormBody, FormV1 } from "../../server/forms/schema.js";
import { sendRequest } from "../support/http-client.js";
import { uniqueStay } from "../support/stays.js";

/** An acknowledged create. */
export interface Create {
  key: string;
  body: FormBody;
  idempotencyKey: string;
  form: FormV1;
}

let serial = 0;

/** Creates a form with its own Idempotency-Key. Throws unless it is acknowledged. */
export async function createForm(
  url: string,
  key: string,
  listingId: string,
  guestEmail: string | null,
): Promise<Create> {
  const body = uniqueStay(listingId, { guestEmail }) as FormBody;
  const idempotencyKey = `backup-${++serial}`;
  const response = await postForm(url, { key, body, idempotencyKey });
  if (response.status !== 201) throw new Error(`a create was answered with ${response.status}`);
  return { key, body, idempotencyKey, form: response.json as FormV1 };
}

export const postForm = (url: string, { key, body, idempotencyKey }: Omit<Create, "form">) =>
  sendRequest(`${url}/v1/forms`, key, {
    method: "POST",
    body,
    headers: { "Idempotency-Key": idempotencyKey },
  });

/** Updates the party and, if given, the address of a form. */
export async function updateForm(
  url: string,
  { key, body, form }: Create,
  guestEmail?: string,
): Promise<void> {
  const { guestEmail: _, ...stay } = body;
  const response = await sendRequest(`${url}/v1/forms/${form.id}`, key, {
    method: "PUT",
    body: { ...stay, numberOfGuests: 5, ...(guestEmail && { guestEmail }) },
  });
  if (response.status !== 200) throw new Error(`an update was answered with ${response.status}`);
}

export interface Page {
  path: string;
  json: { items: { id: string }[]; nextCursor: string | null };
}

/** Reads a list to its end, in pages of 7. */
async function readList(url: string, key: string, path: string): Promise<Page[]> {
  const pages: Page[] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const parameters = new URLSearchParams({ limit: "7", ...(cursor && { cursor }) });
    const { status, json } = await sendRequest(
      `${url}${path}${path.includes("?") ? "&" : "?"}${parameters}`,
      key,
    );
    if (status !== 200) throw new Error(`${path} was answered with ${status}`);
    const page: Page = { path: `${path} ${cursor}`, json: json as Page["json"] };
    pages.push(page);
    cursor = page.json.nextCursor;
  }
  return pages;
}

/** Reads every page of every list of a key: forms, listings, and the forms of each of these listings. */
export async function readAllLists(url: string, key: string, listingIds: string[]): Promise<Page[]> {
  const paths = ["/v1/forms", "/v1/listings", ...listingIds.map((id) => `/v1/forms?listingId=${id}`)];
  const lists = [];
  for (const path of paths) lists.push(await readList(url, key, path));
  return lists.flat();
}
