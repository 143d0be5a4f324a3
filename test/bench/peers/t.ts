// Peer T: an ordinary server on Express and Prisma. It shares only the code that makes the bytes equal: cursors,
// fingerprints and sealed emails.
import { createHash, randomUUID } from "node:crypto";
import { PrismaPg } from "@prisma/adapter-pg";
import express, { type NextFunction, type Request, type Response } from "express";
import { rateLimit } from "express-rate-limit";
import { nanoid } from "nanoid";
import { z } from "zod";
import { type ApiKey, type Prisma, PrismaClient } from "../../../prisma/client/client.js";
import { fingerprints } from "../../../server/forms/idempotency.js";
import { decodeCursor, encodeCursor, type ListIdentity } from "../../../server/paging.js";
import { deriveKeyring, seal } from "../../../server/secrets.js";
import { canonicalEmail } from "../../../server/values.js";

const { DATABASE_URL = "", APP_SECRETS = "", PORT, RATE_LIMIT_MAX } = process.env;
const keyring = deriveKeyring([APP_SECRETS]);
const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: DATABASE_URL }) });

class HttpError extends Error {
  readonly status: number;
  constructor(status: number, code: string) {
    super(code);
    this.status = status;
  }
}

const app = express();

app.get("/readyz", async (_req, res) => {
  await prisma.$queryRaw`SELECT 1`;
  res.json({ status: "ok" });
});

app.use(express.json());
app.use(async (req: Request, res: Response, next: NextFunction) => {
  const key = req.get("authorization")?.replace(/^Bearer /, "") ?? "";
  const hash = createHash("sha256").update(key).digest();
  const apiKey = await prisma.apiKey.findUnique({ where: { hash } });
  if (!apiKey || apiKey.revokedAt || (apiKey.expiresAt && apiKey.expiresAt <= new Date())) {
    throw new HttpError(401, "UNAUTHENTICATED");
  }
  res.locals.apiKey = apiKey;
  next();
});
app.use(
  rateLimit({
    windowMs: 60_000,
    limit: Number(RATE_LIMIT_MAX),
    standardHeaders: "draft-8",
    legacyHeaders: false,
    keyGenerator: (_req, res) => res.locals.apiKey.id,
  }),
);

const inScope = (userId: string): Prisma.ListingWhereInput => ({
  memberships: { some: { userId, role: { in: ["OWNER", "WRITER"] } } },
});

const formSelect = {
  id: true,
  listingId: true,
  publicId: true,
  status: true,
  checkInDate: true,
  checkOutDate: true,
  numberOfGuests: true,
  numberOfVehicles: true,
  numberOfPets: true,
  createdAt: true,
} satisfies Prisma.FormSelect;

const listingSelect = {
  id: true,
  publicId: true,
  title: true,
  address: true,
  city: true,
  country: true,
  zipCode: true,
  district: true,
  timezone: true,
  active: true,
  maxPeopleInListing: true,
  maxVehicles: true,
  allowPets: true,
  createdAt: true,
} satisfies Prisma.ListingSelect;

const STATUSES = ["SENT", "COMPLETED", "ACCEPTED", "REJECTED", "VALIDATED", "INVALIDATED", "CHECKED_OUT"];

const toForm = (row: Prisma.FormGetPayload<{ select: typeof formSelect }>) => ({
  ...row,
  status: STATUSES.includes(row.status) ? row.status : "UNKNOWN",
});

const byId = z.object({ id: z.guid() });

app.get("/v1/forms/:id", async (req, res) => {
  const { id } = byId.parse(req.params);
  const row = await prisma.form.findFirst({
    where: { id, listing: inScope(res.locals.apiKey.userId) },
    select: formSelect,
  });
  if (!row) throw new HttpError(404, "RESOURCE_NOT_FOUND");
  res.json(toForm(row));
});

app.get("/v1/listings/:id", async (req, res) => {
  const { id } = byId.parse(req.params);
  const row = await prisma.listing.findFirst({
    where: { id, ...inScope(res.locals.apiKey.userId) },
    select: listingSelect,
  });
  if (!row) throw new HttpError(404, "RESOURCE_NOT_FOUND");
  res.json(row);
});

const listQuery = z.object({
  limit: z.coerce
    .number()
    .int()
    .default(50)
    .transform((limit) => Math.min(Math.max(limit, 1), 100)),
  cursor: z.string().optional(),
  listingId: z.guid().optional(),
});

/** Keyset pagination: rows after the cursor. */
function afterCursor(identity: ListIdentity, cursor: string | undefined) {
  if (cursor === undefined) return {};
  const position = decodeCursor(keyring.cursor, identity, cursor);
  const createdAt = new Date(position.createdAt);
  return { OR: [{ createdAt: { gt: createdAt } }, { createdAt, id: { gt: position.id } }] };
}

function nextCursor(identity: ListIdentity, rows: { id: string; createdAt: Date }[], limit: number) {
  const last = rows.length > limit ? rows[limit - 1] : undefined;
  return last
    ? encodeCursor(keyring.cursor, identity, { id: last.id, createdAt: last.createdAt.getTime() })
    : null;
}

const oldestFirst = [{ createdAt: "asc" as const }, { id: "asc" as const }];

app.get("/v1/forms", async (req, res) => {
  const { limit, cursor, listingId } = listQuery.parse(req.query);
  const identity: ListIdentity = { list: "forms", listingId };
  const rows = await prisma.form.findMany({
    where: {
      listing: inScope(res.locals.apiKey.userId),
      ...(listingId && { listingId }),
      ...afterCursor(identity, cursor),
    },
    orderBy: oldestFirst,
    take: limit + 1,
    select: formSelect,
  });
  res.json({ items: rows.slice(0, limit).map(toForm), nextCursor: nextCursor(identity, rows, limit) });
});

app.get("/v1/listings", async (req, res) => {
  const { limit, cursor } = listQuery.parse(req.query);
  const identity: ListIdentity = { list: "listings" };
  const rows = await prisma.listing.findMany({
    where: { ...inScope(res.locals.apiKey.userId), ...afterCursor(identity, cursor) },
    orderBy: oldestFirst,
    take: limit + 1,
    select: listingSelect,
  });
  res.json({ items: rows.slice(0, limit), nextCursor: nextCursor(identity, rows, limit) });
});

const createBody = z
  .strictObject({
    listingId: z.guid().toLowerCase(),
    checkInDate: z.iso.datetime({ offset: true }),
    checkOutDate: z.iso.datetime({ offset: true }),
    numberOfGuests: z.int32().min(1),
    guestEmail: z.email().max(254).nullish(),
  })
  .refine(({ checkInDate, checkOutDate }) => Date.parse(checkOutDate) > Date.parse(checkInDate));

type CreateBody = z.output<typeof createBody>;

/** Restores the order of the properties of a stored response, which jsonb does not keep. */
function restoreOrder({ answer, form }: { answer: Prisma.JsonValue; form: { createdAt: Date } }) {
  const stored: Record<string, unknown> = { ...(answer as object), createdAt: form.createdAt };
  return Object.fromEntries(Object.keys(formSelect).map((name) => [name, stored[name]]));
}

const CREATED_AT = { form: { select: { createdAt: true } } } as const;

async function create(
  tx: Prisma.TransactionClient,
  apiKey: ApiKey,
  body: CreateBody,
  key: string | undefined,
) {
  const { userId: holderId } = apiKey;
  const listing = await tx.listing.findFirst({ where: { id: body.listingId, ...inScope(holderId) } });
  if (!listing) throw new HttpError(404, "RESOURCE_NOT_FOUND");
  const [checkInDate, checkOutDate] = [new Date(body.checkInDate), new Date(body.checkOutDate)];
  const guestEmail = body.guestEmail ? canonicalEmail(body.guestEmail) : null;
  const canonical = { ...body, guestEmail, checkInDate: +checkInDate, checkOutDate: +checkOutDate };
  const fingerprint = Uint8Array.from(fingerprints(keyring.fingerprint, canonical)[0]);
  if (key) {
    const bound = await tx.idempotencyKey.findUnique({
      where: { holderId_key: { holderId, key } },
      include: { creation: { include: CREATED_AT } },
    });
    if (bound) {
      if (Buffer.compare(bound.creation.fingerprint, fingerprint) !== 0) {
        throw new HttpError(422, "IDEMPOTENCY_KEY_REUSED");
      }
      return { form: restoreOrder(bound.creation), replayed: true };
    }
  }
  const earlier = await tx.creation.findFirst({
    where: { holderId, currentFingerprint: fingerprint },
    include: CREATED_AT,
  });
  if (earlier) {
    if (key) await tx.idempotencyKey.create({ data: { holderId, key, formId: earlier.formId } });
    return { form: restoreOrder(earlier), replayed: true };
  }
  const { active, maxPeopleInListing: most } = listing;
  if (!active || (most !== null && body.numberOfGuests > most)) throw new HttpError(400, "VALIDATION_ERROR");
  const id = randomUUID();
  const row = await tx.form.create({
    data: {
      id,
      publicId: nanoid(),
      listingId: listing.id,
      checkInDate,
      checkOutDate,
      numberOfGuests: body.numberOfGuests,
      guestEmail: guestEmail ? Uint8Array.from(seal(keyring.email, guestEmail, id)) : null,
      fingerprint,
    },
    select: formSelect,
  });
  const form = toForm(row);
  const answer = JSON.parse(JSON.stringify(form)) as Prisma.InputJsonObject;
  await tx.creation.create({
    data: { formId: id, holderId, fingerprint, currentFingerprint: fingerprint, answer },
  });
  if (key) await tx.idempotencyKey.create({ data: { holderId, key, formId: id } });
  await tx.auditEntry.create({
    data: {
      actor: "key",
      actorId: apiKey.id,
      action: "form.created",
      subjectId: id,
      correlationId: randomUUID(),
      details: { listingId: listing.id },
    },
  });
  if (guestEmail) await tx.notification.create({ data: { kind: "form.created", formId: id } });
  return { form, replayed: false };
}

app.post("/v1/forms", async (req, res) => {
  const { apiKey } = res.locals;
  if (apiKey.mode !== "READ_WRITE") throw new HttpError(403, "FORBIDDEN");
  const body = createBody.parse(req.body);
  const { form, replayed } = await prisma.$transaction((tx) =>
    create(tx, apiKey, body, req.get("idempotency-key")),
  );
  if (replayed) res.set("Idempotent-Replayed", "true");
  res.status(201).location(`/v1/forms/${form.id}`).json(form);
});

app.use((error: Error, _req: Request, res: Response, _next: NextFunction) => {
  const status = error instanceof HttpError ? error.status : error instanceof z.ZodError ? 400 : 500;
  if (status === 500) console.error(error);
  res.status(status).json({ code: error.message, message: error.message, correlationId: randomUUID() });
});

const server = app.listen(Number(PORT), "127.0.0.1");
process.once("SIGTERM", () => void server.close(() => prisma.$disconnect()));
