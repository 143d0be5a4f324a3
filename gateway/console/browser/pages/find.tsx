import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { useLocation } from "preact-iso/router";
import { core, type Outputs } from "../core.js";
import { Badge, Time } from "../parts/cells.js";
import { Table } from "../parts/list.js";
import { Loaded, Page, Section } from "../parts/page.js";
import { useRead } from "../queries.js";
import { FORM_COLUMNS } from "./forms.js";

type Found = Outputs["find"]["byText"];
type Hit = Found["hits"][number];

const PATHS: Record<Hit["kind"], (hit: Hit) => string> = {
  form: ({ id }) => `forms/${id}`,
  listing: ({ id }) => `listings/${id}`,
  user: ({ id }) => `users/${id}`,
  key: ({ userId }) => `users/${userId}`,
  endpoint: ({ id }) => `webhooks?endpoint=${id}`,
  request: ({ id }) => `trace?id=${id}`,
};

const hrefOf = (hit: Hit) => `/console/${PATHS[hit.kind](hit)}`;

/** A guest's address is in no page's address. */
const isAddress = (text: string) => /^[^\s@<]+@[^\s@>]+$/.test(text) && !/^(form|endpoint)-[\da-f-]+@/.test(text);

const LISTS: Partial<Record<Hit["kind"], string>> = {
  form: "forms?externalId",
  listing: "listings?search",
  user: "users?search",
};

const HitLine = ({ hit }: { hit: Hit }) => (
  <div>
    <Badge text={hit.kind} /> <a href={hrefOf(hit)}>{hit.name}</a> {hit.about}{" "}
    {hit.checkInDate && (
      <>
        , check-in <Time at={hit.checkInDate} />
      </>
    )}{" "}
    <small class="text-body-secondary">{hit.id.slice(0, 8)}</small>
  </div>
);

/** Where to see the matches that are not shown. */
const More = ({ kind, text }: { kind: Hit["kind"]; text: string }): ComponentChildren => {
  const list = isAddress(text) ? undefined : LISTS[kind];
  if (!list) return <p>10 of more than 10 of kind {kind} are shown.</p>;
  return (
    <p>
      10 of more than 10 {kind}s are shown. <a href={`/console/${list}=${encodeURIComponent(text)}`}>List them all</a>
    </p>
  );
};

const Hits = ({ found: { hits, more }, text }: { found: Found; text: string }) => (
  <div class="vstack gap-2">
    <p role="status">
      {hits.length === 0 ? "Nothing was found" : `${hits.length} shown${more.length > 0 ? ", there are more" : ""}`}
    </p>
    {hits.map((hit) => (
      <HitLine key={`${hit.kind} ${hit.id}`} hit={hit} />
    ))}
    {more.map((kind) => (
      <More key={kind} kind={kind} text={text} />
    ))}
  </div>
);

type Guest = Outputs["people"]["find"];

const FormsOfGuest = ({ guest: { forms, unreadable } }: { guest: Guest }) => (
  <Section title="Forms with this address of their guest">
    <Table
      caption="Oldest first"
      columns={FORM_COLUMNS}
      rows={forms}
      keyOf={({ id }) => id}
      empty="No form has this address."
    />
    {unreadable > 0 && (
      <p>Addresses that could not be read: {unreadable}. APP_SECRETS lacks the secret that encrypted them.</p>
    )}
  </Section>
);

/** Shows what a text may mean, and opens it if it is one thing. `searchText`: unless the address has a text, such as an id. */
export function FindPage({ searchText }: { searchText: string }) {
  const { query, route } = useLocation();
  const text = query.q ?? searchText;
  const found = useRead(["find", text], () => core.find.byText.mutate({ text }), { enabled: text !== "" });
  // Each look-up is audited, so it is made only once.
  const mayBeGuest = isAddress(text);
  const guest = useRead(["guest", text], () => core.people.find.mutate({ email: text }), {
    enabled: mayBeGuest,
    isOnce: true,
  });
  const targets = [
    ...(found.data?.hits ?? []).map(hrefOf),
    ...(guest.data?.forms ?? []).map(({ id }) => `/console/forms/${id}`),
  ];
  const isDone = found.data !== undefined && (guest.data?.unreadable === 0 || !mayBeGuest);
  const only = isDone && targets.length === 1 ? targets[0] : undefined;
  useEffect(() => {
    if (only) route(only, true);
  }, [only]);
  return (
    <Page title="Find">
      {text !== "" && <Loaded query={found}>{(data) => <Hits found={data} text={text} />}</Loaded>}
      {mayBeGuest && <Loaded query={guest}>{(data) => <FormsOfGuest guest={data} />}</Loaded>}
      <p class="text-body-secondary">
        Type an id or its first 8 characters, an external id, a guest’s link or email address, an API key or its first
        12 characters, a Message-ID, or a part of a listing’s title or city, or of a user’s name or email address. What
        you type stays out of the page’s address. A look-up of a guest’s address is audited.
      </p>
    </Page>
  );
}
