import { core } from "../core.js";
import { useListing, useRead } from "../queries.js";

/** Links with the name of what they lead to, or the first characters of its id until that is known. */

export const FormLink = ({ id }: { id: string }) => (
  <a class="nowrap" href={`/console/forms/${id}`}>
    {id.slice(0, 8)}
  </a>
);

export const ListingLink = ({ id }: { id: string }) => (
  <a href={`/console/listings/${id}`}>{useListing(id).data?.title ?? id.slice(0, 8)}</a>
);

export function UserLink({ id }: { id: string }) {
  const { data } = useRead(["user", id], () => core.users.get.query({ id }));
  return <a href={`/console/users/${id}`}>{data ? (data.name ?? data.email) : id.slice(0, 8)}</a>;
}

export const TraceLink = ({ id }: { id: string }) => (
  <a class="nowrap" href={`/console/trace?id=${id}`}>
    {id.slice(0, 8)}
  </a>
);
