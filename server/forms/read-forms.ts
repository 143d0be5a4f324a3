import type { Context, HolderContext } from "../context.js";
import { notFound } from "../errors.js";
import { keysetValues, newestFirst, type Page, readPage } from "../paging.js";
import { waitForInFlightCreates } from "./in-flight-creates.js";
import { projectForm } from "./projection.js";
import { selectAnyForm, selectForm, selectForms, selectNewestForms } from "./queries.js";
import type { FormV1 } from "./schema.js";

/** The form, if it is on a listing in scope. */
export async function getForm({ services, principal }: HolderContext, id: string): Promise<FormV1> {
  const row = await selectForm(services.db, principal.userId, id);
  if (!row) throw notFound();
  return projectForm(row);
}

/** A page of the forms in scope, or of those on one listing: empty if that is not in scope. */
export async function listForms(
  { services, principal, signal }: HolderContext,
  { listingId, ...input }: { limit: number; cursor?: string | undefined; listingId?: string | undefined },
): Promise<Page<FormV1>> {
  const { db, keyring, settings } = services;
  const { items, nextCursor } = await readPage({
    ...input,
    keys: keyring.cursor,
    identity: { list: "forms", listingId },
    read: (after, take) => {
      signal.throwIfAborted();
      return selectForms(
        db,
        principal.userId,
        keysetValues(after, take),
        settings.LIST_SETTLE_SECONDS,
        listingId,
      );
    },
    settle: async ({ isRecent }) => {
      if (isRecent) await waitForInFlightCreates(db, signal);
      return isRecent;
    },
  });
  return { items: items.map(projectForm), nextCursor };
}

/** For the operator: the form with this id. */
export async function getAnyForm({ services }: Context, id: string): Promise<FormV1> {
  const row = await selectAnyForm(services.db, id);
  if (!row) throw notFound();
  return projectForm(row);
}

interface Filter {
  listingId?: string | undefined;
  userId?: string | undefined;
}

/** For the operator: a page of all forms, or of those on one listing or in one user's scope, newest first. */
export async function listAllForms(
  { services: { db, keyring } }: Context,
  { limit, cursor, ...filter }: Filter & { limit: number; cursor?: string | undefined },
): Promise<Page<FormV1>> {
  const { items, nextCursor } = await readPage({
    limit,
    cursor,
    keys: keyring.cursor,
    identity: { list: "all forms", ...filter },
    read: (after, take) => {
      const page = newestFirst(after, take);
      const isFiltered = filter.listingId !== undefined || filter.userId !== undefined;
      // No index has all forms in order: creates would pay for it, and this is rarely asked.
      return isFiltered
        ? selectNewestForms(db, page, filter)
        : db.longTransaction((tx) => selectNewestForms(tx, page, filter));
    },
  });
  return { items: items.map(projectForm), nextCursor };
}
