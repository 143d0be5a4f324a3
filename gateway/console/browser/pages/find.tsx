import { useEffect } from "preact/hooks";
import { useLocation } from "preact-iso/router";
import { core, toFailure } from "../core.js";
import { Badge } from "../parts/cells.js";
import { Loaded, Page } from "../parts/page.js";
import { useRead } from "../queries.js";

const UUID = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i;
const PUBLIC_ID = /^[\w-]{21}$/;
const API_KEY = /grf_\w+/;
const MAX_HITS = 10;

const hit = (kind: string, path: string, name: string) => ({ kind, href: `/console/${path}`, name });

type Hit = ReturnType<typeof hit>;

const formHit = ({ id, status }: { id: string; status: string }) => hit("Form", `forms/${id}`, `${id} ${status}`);

const listingHit = ({ id, title, city }: { id: string; title: string; city: string }) =>
  hit("Listing", `listings/${id}`, `${title}, ${city}`);

const userHit = ({ id, name, email }: { id: string; name: string | null; email: string }) =>
  hit("User", `users/${id}`, `${name ?? ""} ${email}`);

const findKey = async (key: string) => {
  const { userId, prefix, label } = await core.keys.find.mutate({ key });
  return hit("Key", `users/${userId}`, `${prefix}… ${label ?? ""}`);
};

const findEndpoint = async (id: string) => {
  const { url } = await core.webhooks.get.query({ id });
  return hit("Webhook endpoint", `webhooks?endpoint=${id}`, url);
};

const findRequest = async (id: string) => {
  const { entries } = await core.audit.trace.query({ correlationId: id });
  return entries.length > 0 ? hit("Request", `trace?id=${id}`, id) : [];
};

const findById = (id: string): Promise<Hit | Hit[]>[] => [
  core.forms.getAny.query({ id }).then(formHit),
  core.listings.getAny.query({ id }).then(listingHit),
  core.users.get.query({ id }).then(userHit),
  findEndpoint(id),
  findKey(id),
  findRequest(id),
];

const findByText = (search: string): Promise<Hit | Hit[]>[] => [
  core.listings.listAll.query({ search, limit: MAX_HITS }).then(({ items }) => items.map(listingHit)),
  core.users.list.query({ search, limit: MAX_HITS }).then(({ items }) => items.map(userHit)),
];

/** Everything that the text may mean: an id, a guest's link, an API key, or a part of a name. */
async function find(text: string): Promise<Hit[]> {
  const parts = text.split(/[/?#&=\s]+/);
  const id = parts.findLast((part) => UUID.test(part))?.toLowerCase();
  const publicId = parts.findLast((part) => PUBLIC_ID.test(part));
  const [key] = API_KEY.exec(text) ?? [];
  const calls = key ? [findKey(key)] : id ? findById(id) : findByText(text);
  if (publicId) calls.push(core.forms.getByPublicId.query({ publicId }).then(({ form }) => formHit(form)));
  const noneIfMissing = (error: unknown) => {
    if (toFailure(error).status === 404) return [];
    throw error;
  };
  return (await Promise.all(calls.map((call) => call.catch(noneIfMissing)))).flat();
}

/** Shows what a text may mean, and opens it if it is one thing. `searchText`: unless the address has a text, such as an id. */
export function FindPage({ searchText }: { searchText: string }) {
  const { query, route } = useLocation();
  const text = query.q ?? searchText;
  const hits = useRead(["find", text], () => find(text), { enabled: text !== "" });
  const only = hits.data?.length === 1 ? hits.data[0]?.href : undefined;
  useEffect(() => {
    if (only) route(only, true);
  }, [only]);
  return (
    <Page title="Find">
      {text !== "" && (
        <Loaded query={hits}>
          {(found) => (
            <div class="vstack gap-2">
              <p role="status">{found.length === 0 ? "Nothing was found" : `${found.length} found`}</p>
              {found.map(({ kind, href, name }) => (
                <div key={href}>
                  <Badge text={kind} /> <a href={href}>{name}</a>
                </div>
              ))}
            </div>
          )}
        </Loaded>
      )}
      <p class="text-body-secondary">
        Type a whole id, a guest’s link, an API key or its first 12 characters, or a part of a listing’s title or city,
        or of a user’s name or email address. What you type stays out of the page’s address.
      </p>
    </Page>
  );
}
