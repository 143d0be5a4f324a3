// Syncs bookings without the SDK, as the guides say: "Without the SDK" of the recipes, rate limits, errors. Keeps a store, as many
// programs do: `store.json` has the form's id of each booking. A guest without an address is sent the link by another channel, which
// here is the file `links.ndjson`.
import { appendFileSync, existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";

const { GUEST_FORMS_BASE_URL, GUEST_FORMS_API_KEY } = process.env;
const CONCURRENCY = 4;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Sends a request until it is answered with something else than 429 and 5xx. */
async function send(method, path, body, headers = {}) {
  for (let attempt = 1; ; attempt++) {
    const response = await fetch(GUEST_FORMS_BASE_URL + path, {
      method,
      headers: {
        Authorization: `Bearer ${GUEST_FORMS_API_KEY}`,
        ...(body && { "Content-Type": "application/json" }),
        ...headers,
      },
      ...(body && { body: JSON.stringify(body) }),
    }).catch((error) => {
      if (attempt === 5) throw error;
    });
    if (response && response.status !== 429 && response.status < 500) return response;
    if (attempt === 50) throw new Error(`${method} ${path}: ${response?.status}`);
    await sleep(Number(response?.headers.get("Retry-After") ?? attempt) * 1000);
  }
}

/** The JSON of a success. */
async function read(response) {
  if (!response.ok) throw new Error(`${response.url}: ${response.status} ${await response.text()}`);
  return response.json();
}

const store = existsSync("store.json") ? JSON.parse(readFileSync("store.json", "utf8")) : {};
/** Stores the form's id. Sends the link before, so that it is not lost if the program is killed: then it is sent twice. */
function remember(booking, form) {
  if (store[booking.id]) return;
  if (!booking.guestEmail)
    appendFileSync("links.ndjson", `${JSON.stringify({ id: booking.id, url: form.guestUrl })}\n`);
  store[booking.id] = form.id;
  writeFileSync("store.json.new", JSON.stringify(store));
  renameSync("store.json.new", "store.json");
}

async function findId(booking) {
  if (store[booking.id]) return store[booking.id];
  const { items } = await read(await send("GET", `/v1/forms?externalId=${encodeURIComponent(booking.id)}`));
  return items[0]?.id;
}

/** Makes the booking's form as the booking is. */
async function sync(booking) {
  const body = {
    listingId: booking.listingId,
    checkInDate: booking.checkIn,
    checkOutDate: booking.checkOut,
    numberOfGuests: booking.guests,
    ...(booking.guestEmail && { guestEmail: booking.guestEmail }),
    externalId: booking.id,
  };
  const id = await findId(booking);
  if (id === undefined && booking.isCancelled) return;
  if (id !== undefined) {
    const current = await read(await send("GET", `/v1/forms/${id}`));
    remember(booking, current);
    if (["CANCELLED", "CHECKED_OUT"].includes(current.status)) return;
    const changed = booking.isCancelled ? { ...body, cancelled: true } : body;
    await read(await send("PUT", `/v1/forms/${id}`, changed));
    return;
  }
  const response = await send("POST", "/v1/forms", body, { "Idempotency-Key": `booking-${booking.id}` });
  const location = response.headers.get("Location");
  const form = await read(response.status === 422 && location ? await send("PUT", location, body) : response);
  remember(booking, form);
}

const queue = JSON.parse(readFileSync("bookings.json", "utf8")).values();
async function work() {
  for (const booking of queue) await sync(booking);
}
await Promise.all(Array.from({ length: CONCURRENCY }, work));
