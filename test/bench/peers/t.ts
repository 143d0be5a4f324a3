// Peer T: an ordinary server on Express and Prisma. Its creates are not idempotent.
import { randomUUID } from "node:crypto";
import { PrismaPg } from "@prisma/adapter-pg";
import express from "express";
import { z } from "zod";
import { type Prisma, PrismaClient } from "../../../prisma/client/client.js";
import { createInput, formV1, projectStatus } from "../../../server/forms/schema.js";
import { hashBearer, newForm, readCursor, settings, toPage } from "./shared.js";

const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: settings.databaseUrl }) });

const httpError = (status: number) => Object.assign(new Error(`HTTP ${status}`), { status });

const app = express();

app.get("/readyz", async (_req, res) => {
  await prisma.$queryRaw`SELECT 1`;
  res.json({ status: "ok" });
});

app.use(express.json());
app.use(async (req, res, next) => {
  const apiKey = await prisma.apiKey.findUnique({ where: { hash: hashBearer(req.get("authorization")) } });
  const isExpired = apiKey?.expiresAt && apiKey.expiresAt <= new Date();
  if (!apiKey || apiKey.revokedAt || isExpired) throw httpError(401);
  res.locals.apiKey = apiKey;
  next();
});

const inScope = (userId: string): Prisma.ListingWhereInput => ({
  memberships: { some: { userId, role: { in: ["OWNER", "WRITER"] } } },
});

const { shape: stored } = formV1.omit({ guestUrl: true });

const formSelect = Object.fromEntries(Object.keys(stored).map((field) => [field, true])) as {
  [Field in keyof typeof stored]: true;
};

const toForm = (row: Prisma.FormGetPayload<{ select: typeof formSelect }>) => ({
  ...row,
  status: projectStatus(row.status),
  updatedAt: row.updatedAt ?? row.createdAt,
  guestUrl: null,
});

app.get("/v1/forms/:id", async (req, res) => {
  const where = { id: z.guid().parse(req.params.id), listing: inScope(res.locals.apiKey.userId) };
  const row = await prisma.form.findFirst({ where, select: formSelect });
  if (!row) throw httpError(404);
  res.json(toForm(row));
});

const pageSize = z.coerce.number().int().min(1).max(100).default(50);

app.get("/v1/forms", async (req, res) => {
  const limit = pageSize.parse(req.query.limit);
  const position = readCursor(z.string().optional().parse(req.query.cursor));
  const createdAt = new Date(position?.createdAt ?? 0);
  const after = position && [{ createdAt: { gt: createdAt } }, { createdAt, id: { gt: position.id } }];
  const rows = await prisma.form.findMany({
    where: { listing: inScope(res.locals.apiKey.userId), ...(after && { OR: after }) },
    orderBy: [{ createdAt: "asc" }, { id: "asc" }],
    take: limit + 1,
    select: formSelect,
  });
  res.json(toPage(rows.map(toForm), limit));
});

app.post("/v1/forms", async (req, res) => {
  const { userId, id: actorId, mode } = res.locals.apiKey;
  if (mode !== "READ_WRITE") throw httpError(403);
  const { answer: _, ...values } = newForm(createInput.parse(req.body));
  const { id, listingId, checkInDate, numberOfGuests } = values;
  const correlationId = randomUUID();
  const form = await prisma.$transaction(async (tx) => {
    const listing = await tx.listing.findFirst({ where: { id: listingId, active: true, ...inScope(userId) } });
    if (!listing) throw httpError(404);
    if (numberOfGuests > (listing.maxPeopleInListing ?? numberOfGuests)) throw httpError(400);
    const entry = { actor: "key", actorId, action: "form.created", subjectId: id, correlationId };
    await tx.auditEntry.create({ data: { ...entry, details: { listingId } } });
    const email = { kind: "invitation", formId: id, tenantId: userId, checkInDate, correlationId };
    const created = await tx.form.create({ data: values, select: formSelect });
    if (values.guestEmail) await tx.email.create({ data: email });
    return toForm(created);
  });
  res.status(201).location(`/v1/forms/${id}`).json(form);
});

app.listen(settings.port, "127.0.0.1");
