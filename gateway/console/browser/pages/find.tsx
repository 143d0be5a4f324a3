import { useEffect } from "preact/hooks";
import { useLocation } from "preact-iso/router";
import { core, toFailure } from "../core.js";
import { Badge } from "../parts/badge.js";
import { Page, Section } from "../parts/page.js";
import { Loaded } from "../parts/states.js";
import { useRead } from "../queries.js";

const UUID = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i;
export const isUuid = (text: string) => UUID.test(text);

const PUBLIC_ID = /^[\w-]{21}$/;
const API_KEY = /grf_\w+/;
const PLAIN_WORDS = /^(?:[\p{L}\p{N}.,’'-]{1,20}(?:\s+|$))+$/u;
const KEY_PREFIX_LENGTH = 12;
const MAX_HITS = 10;

/** Texts that may be secret or personal, until the page is loaded again. */
const privateTexts: string[] = [];

/** Address of the page that finds the text. It and the browser’s history have no keys, guest links or email addresses. */
export const addressOf = (text: string) =>
  isUuid(text) || PLAIN_WORDS.test(text)
    ? `/console/find?${new URLSearchParams({ q: text })}`
    : `/console/find?private=${privateTexts.push(text) - 1}`;

/** The text that the page of this address finds; undefined if it is forgotten. */
export const textOf = (query: Record<string, string>): string | undefined =>
  query.private === undefined ? (query.q ?? "").trim() : privateTexts[Number(query.private)];

interface Hit {
  kind: string;
  href: string;
  name: string;
  note?: string | null;
}

const listingHit = ({ id, title, city }: { id: string; title: string; city: string }): Hit => ({
  kind: "Listing",
  href: `/console/listings/${id}`,
  name: title,
  note: city,
});

const userHit = ({ id, name, email }: { id: string; name: string | null; email: string }): Hit => ({
  kind: "User",
  href: `/console/users/${id}`,
  name: name ?? email,
  note: name && email,
});

const formHit = ({ id, status }: { id: string; status: string }): Hit => ({
  kind: "Form",
  href: `/console/forms/${id}`,
  name: id,
  note: status,
});

const findKey = async (key: string): Promise<Hit> => {
  const { id, userId, prefix, label } = await core.keys.find.mutate({ key });
  return { kind: "Key", href: `/console/users/${userId}?key=${id}`, name: `${prefix}…`, note: label };
};

const findById = (id: string): Promise<Hit | Hit[]>[] => [
  core.forms.getAny.query({ id }).then(formHit),
  core.listings.getAny.query({ id }).then(listingHit),
  core.users.get.query({ id }).then(userHit),
  core.webhooks.get
    .query({ id })
    .then(({ url }) => ({ kind: "Webhook endpoint", href: `/console/webhooks/${id}`, name: url })),
  findKey(id),
  core.audit.trace
    .query({ correlationId: id })
    .then(({ entries }) =>
      entries.length === 0
        ? []
        : { kind: "Request", href: `/console/trace?id=${id}`, name: id, note: `${entries.length} changes` },
    ),
];

const findByText = (search: string): Promise<Hit[]>[] => [
  core.listings.listAll.query({ search, limit: MAX_HITS }).then(({ items }) => items.map(listingHit)),
  core.users.list.query({ search, limit: MAX_HITS }).then(({ items }) => items.map(userHit)),
];

/** Everything that the text may mean: an id, a guest's link, an API key, or a part of a name. */
async function find(text: string): Promise<Hit[]> {
  const parts = text.split(/[/?#&=\s]+/);
  const id = parts.findLast(isUuid);
  const publicId = parts.findLast((part) => PUBLIC_ID.test(part));
  const [key] = API_KEY.exec(text) ?? [];
  const calls: Promise<Hit | Hit[]>[] = key
    ? [findKey(key)]
    : id
      ? findById(id.toLowerCase())
      : [
          ...(publicId ? [core.forms.getByPublicId.query({ publicId }).then(({ form }) => formHit(form))] : []),
          ...findByText(text),
        ];
  const noneIfMissing = (error: unknown) => {
    if (toFailure(error).status === 404) return [];
    throw error;
  };
  return (await Promise.all(calls.map((call) => call.catch(noneIfMissing)))).flat();
}

export function FindPage() {
  const text = textOf(useLocation().query);
  return (
    <Page title="Find">
      {text ? (
        <Results key={text} of={text} />
      ) : (
        <p>
          {text === undefined
            ? "The text was forgotten when the page was loaded again. Type it again."
            : "Type into “Find” above."}
        </p>
      )}
      <WhatCanBeFound />
    </Page>
  );
}

function Results({ of: text }: { of: string }) {
  const { route } = useLocation();
  const hits = useRead(["find", text], () => find(text));
  const only = hits.data?.length === 1 ? hits.data[0]?.href : undefined;
  useEffect(() => {
    if (only) route(only, true);
  }, [only]);
  const [key] = API_KEY.exec(text) ?? [];
  const shown = key ? `${key.slice(0, KEY_PREFIX_LENGTH)}…` : text;
  return (
    <Loaded query={hits}>
      {(found) => (
        <Section title={`${found.length === 0 ? "Nothing" : found.length} found for “${shown}”`}>
          {found.length > 0 && (
            <ul class="hits">
              {found.map(({ kind, href, name, note }) => (
                <li key={href}>
                  <Badge of={kind} /> <a href={href}>{name}</a> <span class="quiet">{note}</span>
                </li>
              ))}
            </ul>
          )}
        </Section>
      )}
    </Loaded>
  );
}

const WhatCanBeFound = () => (
  <p class="quiet">
    Finds a form, listing, user, webhook endpoint, API key or request by its id; a form by its public id or the guest’s
    link; a listing by a part of its title, city or external id; a user by a part of the name or email address; a key by
    the whole key or its first {KEY_PREFIX_LENGTH} characters. Keys, guest links and email addresses stay out of the
    page’s address.
  </p>
);
