import { useEffect } from "preact/hooks";
import { useLocation } from "preact-iso/router";
import { core, toFailure } from "../core.js";
import { Badge } from "../parts/badge.js";
import { Page } from "../parts/page.js";
import { Loaded } from "../parts/states.js";
import { useRead } from "../queries.js";

const UUID = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i;
const PUBLIC_ID = /^[\w-]{21}$/;
const API_KEY = /grf_\w+/;
const MAX_HITS = 10;

interface Hit {
  kind: string;
  href: string;
  name: string;
}

const toForm = ({ id, status }: { id: string; status: string }): Hit => {
  return { kind: "Form", href: `/console/forms/${id}`, name: `${id} ${status}` };
};

const toListing = ({ id, title, city }: { id: string; title: string; city: string }): Hit => {
  return { kind: "Listing", href: `/console/listings/${id}`, name: `${title}, ${city}` };
};

const toUser = ({ id, name, email }: { id: string; name: string | null; email: string }): Hit => {
  return { kind: "User", href: `/console/users/${id}`, name: `${name ?? ""} ${email}` };
};

const findKey = async (key: string): Promise<Hit> => {
  const { id, userId, prefix, label } = await core.keys.find.mutate({ key });
  return { kind: "Key", href: `/console/users/${userId}?key=${id}`, name: `${prefix}… ${label ?? ""}` };
};

const findEndpoint = async (id: string): Promise<Hit> => {
  const { url } = await core.webhooks.get.query({ id });
  return { kind: "Webhook endpoint", href: `/console/webhooks?endpoint=${id}`, name: url };
};

const findRequest = async (id: string): Promise<Hit[]> => {
  const { entries } = await core.audit.trace.query({ correlationId: id });
  return entries.length === 0 ? [] : [{ kind: "Request", href: `/console/trace?id=${id}`, name: id }];
};

const findById = (id: string): Promise<Hit | Hit[]>[] => [
  core.forms.getAny.query({ id }).then(toForm),
  core.listings.getAny.query({ id }).then(toListing),
  core.users.get.query({ id }).then(toUser),
  findEndpoint(id),
  findKey(id),
  findRequest(id),
];

const findByText = (search: string): Promise<Hit | Hit[]>[] => [
  core.listings.listAll.query({ search, limit: MAX_HITS }).then(({ items }) => items.map(toListing)),
  core.users.list.query({ search, limit: MAX_HITS }).then(({ items }) => items.map(toUser)),
];

/** Everything that the text may mean: an id, a guest's link, an API key, or a part of a name. */
async function find(text: string): Promise<Hit[]> {
  const parts = text.split(/[/?#&=\s]+/);
  const id = parts.findLast((part) => UUID.test(part))?.toLowerCase();
  const publicId = parts.findLast((part) => PUBLIC_ID.test(part));
  const [key] = API_KEY.exec(text) ?? [];
  const calls = key ? [findKey(key)] : id ? findById(id) : findByText(text);
  if (publicId) calls.push(core.forms.getByPublicId.query({ publicId }).then(({ form }) => toForm(form)));
  const noneIfMissing = (error: unknown) => {
    if (toFailure(error).status === 404) return [];
    throw error;
  };
  return (await Promise.all(calls.map((call) => call.catch(noneIfMissing)))).flat();
}

/** Shows what a text may mean, and opens it if it is one thing. `sought`: unless the address has a text, such as an id. */
export function FindPage({ sought }: { sought: string }) {
  const { query, route } = useLocation();
  const text = query.q ?? sought;
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
              <h2 class="h6">{found.length === 0 ? "Nothing was found" : `${found.length} found`}</h2>
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
        Type any id, a guest’s link, an API key or its first 12 characters, or a part of a listing’s title or city, or
        of a user’s name or email address. What you type stays out of the page’s address.
      </p>
    </Page>
  );
}
