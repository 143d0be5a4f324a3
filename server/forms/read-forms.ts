import type { Call, GuestPageContext, ScopedContext, Services } from "../access/context.js";
import { membershipInScope } from "../access/scope.js";
import type { Sql } from "../database/db.js";
import { ON_PRIMARY } from "../database/primary.js";
import { NeedsPrimary } from "../database/reads.js";
import { notFound } from "../errors.js";
import { INVITATION } from "../outbox/enqueue.js";
import { type Page, readPage } from "../resources/paging.js";
import { snakeCase } from "../resources/resource.js";
import {
  type byPublicIdInput,
  type GuestForm,
  guestForm,
  type listAllInput,
  type OperatorForm,
  type OperatorListItem,
} from "./in-app-schema.js";
import { FORM_COLUMNS, type FormRow, projectForm } from "./queries.js";
import { type FormV1, filtersOf, type getInput, type listInput } from "./schema.js";
import { selectNewestForms, selectOldestForms } from "./select-list.js";

const GET = `
  SELECT ${FORM_COLUMNS}
  FROM forms f JOIN memberships m ON m.listing_id = f.listing_id
  WHERE f.id = $2::uuid AND ${membershipInScope("$1")} AND ${ON_PRIMARY}`;

export async function getForm({ ctx, input }: Call<typeof getInput, ScopedContext>): Promise<FormV1> {
  const { reads, settings } = ctx.services;
  const [row] = await reads.run((sql) => sql.query<FormRow>("form", GET, [ctx.principal.userId, input.id]), ctx.signal);
  if (!row) throw notFound("form");
  return projectForm(row, settings);
}

export function listForms({ ctx, input }: Call<typeof listInput, ScopedContext>): Promise<Page<FormV1>> {
  const { principal, signal } = ctx;
  const { reads, settings, inFlightCreates } = ctx.services;
  const { listingId } = input;
  const filters = filtersOf(input);
  const scope = { userId: principal.userId, settleSeconds: settings.LIST_SETTLE_SECONDS, listingId };
  return reads.run(
    (sql, arrival) =>
      readPage(ctx, input, {
        identity: { list: "forms", listingId, filters: Object.keys(filters).length > 0 ? filters : undefined },
        order: "oldest first",
        read: (page) => selectOldestForms(sql, page, { ...scope, primaryNow: arrival?.now }, filters),
        project: (row) => projectForm(row, settings),
        waitForEarlierRows: async ({ mayHavePredecessors }) => {
          if (!mayHavePredecessors) return false;
          // A standby does not show the creates in flight.
          if (arrival) throw new NeedsPrimary("recent");
          await inFlightCreates.wait(signal);
          return true;
        },
      }),
    signal,
  );
}

// Forms as the operator reads them, not limited by scope.

const GET_ANY = `
  SELECT ${FORM_COLUMNS}, f.guest_email IS NOT NULL AS "hasGuestEmail" FROM forms f WHERE f.id = $1::uuid`;

export async function getAnyForm({ ctx, input }: Call<typeof getInput>): Promise<OperatorForm> {
  const [row] = await ctx.services.db.query<FormRow & { hasGuestEmail: boolean }>("any-form", GET_ANY, [input.id]);
  if (!row) throw notFound("form");
  return { ...projectForm(row, ctx.services.settings), hasGuestEmail: row.hasGuestEmail };
}

const GET_MANY = `SELECT ${FORM_COLUMNS} FROM forms f WHERE f.id = ANY($1::uuid[]) ORDER BY f.created_at, f.id`;

export const readFormsById = async ({ db, settings }: Services, ids: readonly string[]): Promise<FormV1[]> =>
  (await db.query<FormRow>("forms-by-id", GET_MANY, [ids])).map((row) => projectForm(row, settings));

const LISTING_FIELDS = Object.keys(guestForm.shape.listing.shape).map((field) => `'${field}', l.${snakeCase(field)}`);

const GET_BY_PUBLIC_ID = `
  SELECT ${FORM_COLUMNS}, json_build_object(${LISTING_FIELDS}) AS listing
  FROM forms f JOIN listings l ON l.id = f.listing_id
  WHERE f.public_id = $1::text`;

type GuestFormRow = FormRow & Pick<GuestForm, "listing">;

export async function getFormByPublicId({
  ctx,
  input,
}: Call<typeof byPublicIdInput, GuestPageContext>): Promise<GuestForm> {
  const values = [input.publicId];
  const [found] = await ctx.services.db.query<GuestFormRow>("form-by-public-id", GET_BY_PUBLIC_ID, values);
  if (!found) throw notFound("form");
  const { listing } = found;
  const { settings } = ctx.services;
  return { form: projectForm(found, settings), listing, privacyUrl: settings.EMAIL_PRIVACY_URL ?? null };
}

const EMAIL_STATES = `
  SELECT DISTINCT ON (n.form_id) n.form_id::text AS "formId", n.state
  FROM emails n WHERE n.form_id = ANY($1::uuid[]) AND n.kind = '${INVITATION}' ORDER BY n.form_id, n.id DESC`;

type EmailState = OperatorListItem["emailState"];

async function readEmailStates(sql: Sql, ids: string[]): Promise<Map<string, EmailState>> {
  const rows = await sql.query<{ formId: string; state: EmailState }>("email-states-of-forms", EMAIL_STATES, [ids]);
  return new Map(rows.map(({ formId, state }) => [formId, state]));
}

export function listAllForms({ ctx, input }: Call<typeof listAllInput>): Promise<Page<OperatorListItem>> {
  const { db, settings } = ctx.services;
  const { limit: _limit, cursor: _cursor, ...filters } = input;
  return readPage(ctx, input, {
    identity: { list: "all forms", filters: { ...filters, arrivesWithinDays: filters.arrivesWithinDays?.toString() } },
    order: "newest first",
    async read(page) {
      const rows = await selectNewestForms(db, page, filters);
      const states = await readEmailStates(
        db,
        rows.map(({ id }) => id),
      );
      return rows.map((row) => ({ ...row, emailState: states.get(row.id) ?? null }));
    },
    project: (row) => ({ ...projectForm(row, settings), emailState: row.emailState }),
  });
}
