// Peer T: an ordinary server on Express and Prisma.
import { randomUUID } from "node:crypto";
import { PrismaPg } from "@prisma/adapter-pg";
import express, { type NextFunction, type Request, type Response } from "express";
import { rateLimit } from "express-rate-limit";
import { z } from "zod";
import { type ApiKey, type Prisma, PrismaClient } from "../../../prisma/client/client.js";
import type { ListIdentity } from "../../../server/resources/paging.js";
import { FORM, LISTING, prismaSelect } from "../public.js";
import { hashKey, LISTS, newForm, publicStatus, readCursor, settings, toPage } from "./shared.js";

const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: settings.databaseUrl }) });

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
  const apiKey = await prisma.apiKey.findUnique({ where: { hash: hashKey(req.get("authorization")) } });
  if (!apiKey || apiKey.revokedAt || (apiKey.expiresAt && apiKey.expiresAt <= new Date())) {
    throw new HttpError(401, "UNAUTHENTICATED");
  }
  res.locals.apiKey = apiKey;
  next();
});
app.use(
  rateLimit({
    windowMs: 60_000,
    limit: settings.rateLimit,
    standardHeaders: "draft-8",
    legacyHeaders: false,
    keyGenerator: (_req, res) => res.locals.apiKey.id,
  }),
);

const inScope = (userId: string): Prisma.ListingWhereInput => ({
  memberships: { some: { userId, role: { in: ["OWNER", "WRITER"] } } },
});

const formSelect = prismaSelect(FORM);
const listingSelect = prismaSelect(LISTING);

const toForm = <Row extends { status: string }>(row: Row): Row => ({ ...row, status: publicStatus(row.status) });

const byId = z.object({ id: z.guid() });

app.get("/v1/forms/:id", async (req, res) => {
  const where = { ...byId.parse(req.params), listing: inScope(res.locals.apiKey.userId) };
  const row = await prisma.form.findFirst({ where, select: formSelect });
  if (!row) throw new HttpError(404, "RESOURCE_NOT_FOUND");
  res.json(toForm(row));
});

app.get("/v1/listings/:id", async (req, res) => {
  const where = { ...byId.parse(req.params), ...inScope(res.locals.apiKey.userId) };
  const row = await prisma.listing.findFirst({ where, select: listingSelect });
  if (!row) throw new HttpError(404, "RESOURCE_NOT_FOUND");
  res.json(row);
});

const listQuery = z.object({
  limit: z.coerce.number().int().min(1).max(100).default(50),
  cursor: z.string().optional(),
});

/** Keyset pagination: rows after the cursor. */
function readPage(req: Request, identity: ListIdentity) {
  const { limit, cursor } = listQuery.parse(req.query);
  const position = readCursor(identity, cursor);
  const createdAt = new Date(position?.createdAt ?? 0);
  const after = position && [{ createdAt: { gt: createdAt } }, { createdAt, id: { gt: position.id } }];
  const orderBy = [{ createdAt: "asc" as const }, { id: "asc" as const }];
  return { limit, after: after ? { OR: after } : {}, order: { orderBy, take: limit + 1 } };
}

app.get("/v1/forms", async (req, res) => {
  const { limit, after, order } = readPage(req, LISTS.forms);
  const where = { listing: inScope(res.locals.apiKey.userId), ...after };
  const rows = await prisma.form.findMany({ where, ...order, select: formSelect });
  res.json(toPage(rows.map(toForm), limit, LISTS.forms));
});

app.get("/v1/listings", async (req, res) => {
  const { limit, after, order } = readPage(req, LISTS.listings);
  const where = { ...inScope(res.locals.apiKey.userId), ...after };
  const rows = await prisma.listing.findMany({ where, ...order, select: listingSelect });
  res.json(toPage(rows, limit, LISTS.listings));
});

const createBody = z.strictObject({
  listingId: z.guid(),
  checkInDate: z.iso.datetime({ offset: true }),
  checkOutDate: z.iso.datetime({ offset: true }),
  numberOfGuests: z.int32().min(1),
  guestEmail: z.email().max(254).nullish(),
});

/** Restores the order of the properties of a stored response, which jsonb does not keep. */
function restoreOrder({ answer, form }: { answer: Prisma.JsonValue; form: { createdAt: Date } }) {
  const stored: Record<string, unknown> = { ...(answer as object), createdAt: form.createdAt };
  return Object.fromEntries(Object.keys(formSelect).map((name) => [name, stored[name]]));
}

const CREATED_AT = { form: { select: { createdAt: true } } } as const;

type CreateBody = z.output<typeof createBody>;

async function create(tx: Prisma.TransactionClient, apiKey: ApiKey, body: CreateBody, key: string | undefined) {
  const { userId: holderId } = apiKey;
  const made = newForm(body);
  if (!made) throw new HttpError(400, "VALIDATION_ERROR");
  const { correlationId, ...values } = made;
  const { id: formId, listingId, checkInDate, checkOutDate } = values;
  const listing = await tx.listing.findFirst({ where: { id: listingId, ...inScope(holderId) } });
  if (!listing) throw new HttpError(404, "RESOURCE_NOT_FOUND");
  const fingerprint = Uint8Array.from(values.fingerprint);
  const retentionStartsAt = new Date(Math.max(+checkOutDate, Date.now()));
  if (key) {
    const bound = await tx.idempotencyKey.findUnique({
      where: { holderId_key: { holderId, key } },
      include: { creation: { include: CREATED_AT } },
    });
    if (bound) {
      const isReused = Buffer.compare(bound.creation.fingerprint, fingerprint) !== 0;
      if (isReused) throw new HttpError(422, "IDEMPOTENCY_KEY_REUSED");
      return { form: restoreOrder(bound.creation), replayed: true };
    }
  }
  const where = { holderId, currentFingerprint: fingerprint };
  const earlier = await tx.creation.findFirst({ where, include: CREATED_AT });
  if (earlier) {
    if (key) await tx.idempotencyKey.create({ data: { holderId, key, formId: earlier.formId, retentionStartsAt } });
    return { form: restoreOrder(earlier), replayed: true };
  }
  const { active, maxPeopleInListing: most } = listing;
  if (!active || (most !== null && body.numberOfGuests > most)) throw new HttpError(400, "VALIDATION_ERROR");
  const guestEmail = values.guestEmail ? Uint8Array.from(values.guestEmail) : null;
  const form = toForm(await tx.form.create({ data: { ...values, guestEmail, fingerprint }, select: formSelect }));
  const answer = JSON.parse(JSON.stringify(form)) as Prisma.InputJsonObject;
  await tx.creation.create({
    data: { formId, holderId, fingerprint, currentFingerprint: fingerprint, answer, secretId: "secret" },
  });
  if (key) await tx.idempotencyKey.create({ data: { holderId, key, formId, retentionStartsAt } });
  const entry = { actor: "key", actorId: apiKey.id, action: "form.created", subjectId: formId, correlationId };
  await tx.auditEntry.create({ data: { ...entry, details: { listingId } } });
  if (guestEmail) {
    const owner = await tx.membership.findFirst({
      where: { listingId, role: "OWNER" },
      orderBy: [{ user: { createdAt: "asc" } }, { userId: "asc" }],
    });
    const tenantId = owner?.userId ?? listingId;
    await tx.email.create({ data: { kind: "invitation", formId, tenantId, checkInDate, correlationId } });
  }
  return { form, replayed: false };
}

app.post("/v1/forms", async (req, res) => {
  const { apiKey } = res.locals;
  if (apiKey.mode !== "READ_WRITE") throw new HttpError(403, "FORBIDDEN");
  const body = createBody.parse(req.body);
  const { form, replayed } = await prisma.$transaction((tx) => create(tx, apiKey, body, req.get("idempotency-key")));
  if (replayed) res.set("Idempotent-Replayed", "true");
  res.status(201).location(`/v1/forms/${form.id}`).json(form);
});

app.use((error: Error, _req: Request, res: Response, _next: NextFunction) => {
  const status = error instanceof HttpError ? error.status : error instanceof z.ZodError ? 400 : 500;
  if (status === 500) console.error(error);
  res.status(status).json({ code: error.message, message: error.message, correlationId: randomUUID() });
});

const server = app.listen(settings.port, "127.0.0.1");
process.once("SIGTERM", () => void server.close(() => prisma.$disconnect()));
