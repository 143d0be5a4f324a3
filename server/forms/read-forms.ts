import type { ScopedContext } from "../context.js";
import { keysetValues, type Page, readPage } from "../paging.js";
import { projectForm, selectForm, selectForms } from "./queries.js";
import type { FormV1 } from "./schema.js";

/** The form; RESOURCE_NOT_FOUND if it is out of scope. */
export const getForm = ({ services, principal }: ScopedContext, id: string): Promise<FormV1> =>
  selectForm(services.db, principal.userId, id);

/** A page of the forms in scope, or of those on one listing; empty if that listing is out of scope. */
export async function listForms(
  { services, principal, signal }: ScopedContext,
  { listingId, ...input }: { limit: number; cursor?: string | undefined; listingId?: string | undefined },
): Promise<Page<FormV1>> {
  const { db, keyring, settings, inFlightCreates } = services;
  const { items, nextCursor } = await readPage({
    ...input,
    keys: keyring.cursor,
    identity: { list: "forms", listingId },
    read: (after, take) =>
      selectForms(db, principal.userId, keysetValues(after, take), settings.LIST_SETTLE_SECONDS, listingId),
    waitForEarlierRows: async ({ mayHavePredecessors }) => {
      if (mayHavePredecessors) await inFlightCreates.wait(signal);
      return mayHavePredecessors;
    },
  });
  return { items: items.map(projectForm), nextCursor };
}
