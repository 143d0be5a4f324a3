// An in-memory fake of the service that follows gateway/docs/contract.md. Faults are injected by fault-proxy.ts.
import { createHash, randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { FormV1, Listing } from "../../sdk/src/index.js";

type FakeForm = Partial<FormV1> & Pick<FormV1, "id">;

export const READ_WRITE_KEY = "grf_rw_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG0aB3dE";
export const READ_ONLY_KEY = "grf_ro_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG0aB3dE";

export interface FakeService {
  url: string;
  forms: FakeForm[];
  listings: Listing[];
  /** Idempotency-Keys of the creates that made a form. */
  createKeys: string[];
  close(): Promise<void>;
}

const createListing = (title: string): Listing => ({
  id: randomUUID(),
  publicId: title.toLowerCase(),
  title,
  address: "Rua das Flores 1",
  city: "Lisboa",
  country: "PT",
  zipCode: "1200-001",
  district: null,
  timezone: "Europe/Lisbon",
  active: true,
  maxPeopleInListing: 8,
  maxVehicles: null,
  allowPets: null,
  createdAt: new Date().toISOString(),
});

export async function startFakeService(): Promise<FakeService> {
  const forms: FakeForm[] = [];
  const listings = [createListing("Alfama"), createListing("Belem"), createListing("Chiado")];
  const createKeys: string[] = [];
  const byKey = new Map<string, { body: string; form: FakeForm }>();
  const byBody = new Map<string, FakeForm>();

  const handle = async (request: IncomingMessage, response: ServerResponse) => {
    const correlationId = randomUUID();
    const url = new URL(request.url ?? "/", "http://service");
    const text = await readBody(request);
    const reply = (status: number, body: unknown, headers: Record<string, string> = {}) => {
      response.writeHead(status, {
        "content-type": "application/json",
        "x-correlation-id": correlationId,
        ...headers,
      });
      response.end(JSON.stringify(body));
    };
    const fail = (status: number, code: string, errors?: unknown) =>
      reply(status, { code, message: `It was ${code}`, correlationId, ...(errors ? { errors } : {}) });

    const key = request.headers.authorization?.replace(/^Bearer /, "");
    if (key !== READ_WRITE_KEY && key !== READ_ONLY_KEY) return fail(401, "UNAUTHENTICATED");
    const [, collection, id] = /^\/v1\/(forms|listings)(?:\/([^/]+))?$/.exec(url.pathname) ?? [];
    if (!collection) return fail(404, "RESOURCE_NOT_FOUND");

    if (request.method === "GET") {
      const all: { id: string; listingId?: string }[] = collection === "forms" ? forms : listings;
      if (id) {
        const found = all.find((item) => item.id === decodeURIComponent(id));
        return found ? reply(200, found) : fail(404, "RESOURCE_NOT_FOUND");
      }
      const filter = url.searchParams.get("listingId");
      if (filter === "") return fail(400, "VALIDATION_ERROR", [{ field: "listingId", issue: "not a UUID" }]);
      const limit = Math.min(100, Math.max(1, Number(url.searchParams.get("limit") ?? 50)));
      const [from, boundListing] = url.searchParams.get("cursor")?.split("~") ?? ["0", filter ?? ""];
      if (!/^\d+$/.test(from ?? "") || boundListing !== (filter ?? "")) return fail(400, "INVALID_CURSOR");
      const matching = all.filter((item) => !filter || item.listingId === filter);
      const end = Number(from) + limit;
      const nextCursor = end < matching.length ? `${end}~${filter ?? ""}` : null;
      return reply(200, { items: matching.slice(Number(from), end), nextCursor });
    }

    if (key === READ_ONLY_KEY) return fail(403, "FORBIDDEN");
    if (text.length > 16_384) return fail(413, "PAYLOAD_TOO_LARGE");
    const body = JSON.parse(text) as Record<string, unknown>;
    const errors = validateBody(body);
    if (errors.length) return fail(400, "VALIDATION_ERROR", errors);
    if (!listings.some((item) => item.id === body.listingId)) return fail(404, "RESOURCE_NOT_FOUND");
    const stay = {
      listingId: String(body.listingId),
      checkInDate: new Date(String(body.checkInDate)).toISOString(),
      checkOutDate: new Date(String(body.checkOutDate)).toISOString(),
      numberOfGuests: Number(body.numberOfGuests),
    };
    if (request.method === "PUT") {
      const form = forms.find((item) => item.id === id);
      if (!form) return fail(404, "RESOURCE_NOT_FOUND");
      return reply(200, Object.assign(form, stay));
    }
    const fingerprint = createHash("sha256").update(JSON.stringify(stay)).digest("hex");
    const idempotencyKey = String(request.headers["idempotency-key"]);
    const bound = byKey.get(idempotencyKey);
    if (bound && bound.body !== fingerprint) return fail(422, "IDEMPOTENCY_KEY_REUSED");
    const earlier = bound?.form ?? byBody.get(fingerprint);
    if (earlier) {
      byKey.set(idempotencyKey, { body: fingerprint, form: earlier });
      return reply(201, earlier, { "idempotent-replayed": "true", location: `/v1/forms/${earlier.id}` });
    }
    const form: FakeForm = {
      id: randomUUID(),
      ...stay,
      publicId: randomUUID().slice(0, 21),
      status: "SENT",
      numberOfVehicles: null,
      numberOfPets: null,
      createdAt: new Date().toISOString(),
    };
    forms.push(form);
    createKeys.push(idempotencyKey);
    byKey.set(idempotencyKey, { body: fingerprint, form });
    byBody.set(fingerprint, form);
    return reply(201, form, { location: `/v1/forms/${form.id}` });
  };

  const server = createServer((request, response) => void handle(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    forms,
    listings,
    createKeys,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

const INPUT_FIELDS = ["listingId", "checkInDate", "checkOutDate", "numberOfGuests", "guestEmail"];

function validateBody(body: Record<string, unknown>): { field: string; issue: string }[] {
  const errors = INPUT_FIELDS.slice(0, 4)
    .filter((field) => body[field] === undefined || body[field] === null)
    .map((field) => ({ field, issue: "required" }));
  if (String(body.checkOutDate) <= String(body.checkInDate)) {
    errors.push({ field: "checkOutDate", issue: "must be after checkInDate" });
  }
  for (const field of Object.keys(body)) {
    if (!INPUT_FIELDS.includes(field)) errors.push({ field, issue: "unknown property" });
  }
  return errors;
}

export async function readBody(message: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}
