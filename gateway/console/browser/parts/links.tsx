import { CallFailed, core, toFailure } from "../core.js";
import { useListing, useRead } from "../queries.js";
import type { Values } from "./form.js";

const shorten = (id: string) => id.slice(0, 8);

const idLink =
  (path: string) =>
  ({ id }: { id: string }) => (
    <a class="text-nowrap" href={path + id}>
      {shorten(id)}
    </a>
  );

/** Links with the name of what they lead to, or the first characters of its id until that is known. */

export const FormLink = idLink("/console/forms/");
export const TraceLink = idLink("/console/trace?id=");
export const EndpointLink = idLink("/console/webhooks?endpoint=");

export const ListingLink = ({ id }: { id: string }) => (
  <a href={`/console/listings/${id}`}>{useListing(id).data?.title ?? shorten(id)}</a>
);

export function UserLink({ id }: { id: string }) {
  const { data } = useRead(["user", id], () => core.users.get.query({ id }));
  return <a href={`/console/users/${id}`}>{data ? (data.name ?? data.email) : shorten(id)}</a>;
}

/** Returns the id of what `find` finds by the text in the form's field, or fails at the field. */
const findIn =
  (issue: string, find: (text: string) => Promise<{ id: string }>) => async (values: Values, field: string) => {
    try {
      return (await find(`${values[field] ?? ""}`)).id;
    } catch (error) {
      const { message, status } = toFailure(error);
      throw [400, 404].includes(status) ? new CallFailed(message, { status, fields: [{ field, issue }] }) : error;
    }
  };

export const findUserId = findIn("no user has this email address, external id or id", (user) =>
  core.users.find.query({ user }),
);

export const findListingId = findIn("no listing has this external id or id", (listing) =>
  core.listings.find.query({ listing }),
);
