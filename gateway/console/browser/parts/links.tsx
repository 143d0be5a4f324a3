import { CallFailed, core, toFailure } from "../core.js";
import { useListing, useRead } from "../queries.js";
import type { Values } from "./form.js";

interface LinkProps {
  id: string;
}

const shorten = (id: string) => id.slice(0, 8);

/** Links with the name of what they lead to, or the first characters of its id until that is known. */

export const FormLink = ({ id }: LinkProps) => <a href={`/console/forms/${id}`}>{shorten(id)}</a>;

export const TraceLink = ({ id }: LinkProps) => <a href={`/console/trace?id=${id}`}>{shorten(id)}</a>;

export const EndpointLink = ({ id }: LinkProps) => <a href={`/console/webhooks?endpoint=${id}`}>{shorten(id)}</a>;

export const ListingLink = ({ id }: LinkProps) => (
  <a href={`/console/listings/${id}`}>{useListing(id).data?.title ?? shorten(id)}</a>
);

export function UserLink({ id }: LinkProps) {
  const { data } = useRead(["user", id], () => core.users.get.query({ id }));
  return <a href={`/console/users/${id}`}>{data ? (data.name ?? data.email) : shorten(id)}</a>;
}

/** Returns the id of what `find` finds, or fails at the form's field. */
async function idOf(field: string, issue: string, find: () => Promise<{ id: string }>): Promise<string> {
  try {
    return (await find()).id;
  } catch (error) {
    const { message, status } = toFailure(error);
    throw [400, 404].includes(status) ? new CallFailed(message, { status, fields: [{ field, issue }] }) : error;
  }
}

/** Id of the user whose email address, external id or id is in the form's field. */
export const findUserId = (values: Values, field: string) =>
  idOf(field, "no user has this email address, external id or id", () =>
    core.users.find.query({ user: `${values[field] ?? ""}` }),
  );

/** Id of the listing whose external id or id is in the form's field. */
export const findListingId = (values: Values, field: string) =>
  idOf(field, "no listing has this external id or id", () =>
    core.listings.find.query({ listing: `${values[field] ?? ""}` }),
  );
