import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { useLocation } from "preact-iso/router";
import { shortId } from "../../short-id.js";
import { core, type Outputs } from "../core.js";
import { Badge, Time } from "../parts/cells.js";
import { Loaded, Page } from "../parts/page.js";
import { useRead } from "../queries.js";

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
    <small class="text-body-secondary">{shortId(hit.id)}</small>
  </div>
);

interface MoreProps {
  kind: Hit["kind"];
  text: string;
  isAddress: boolean;
}

/** Where to see the matches that are not shown. */
const More = ({ kind, text, isAddress }: MoreProps): ComponentChildren => {
  // A guest's address is in no page's address.
  const list = isAddress ? undefined : LISTS[kind];
  if (!list) return <p>10 of more than 10 of kind {kind} are shown.</p>;
  return (
    <p>
      10 of more than 10 {kind}s are shown. <a href={`/console/${list}=${encodeURIComponent(text)}`}>List them all</a>
    </p>
  );
};

const Hits = ({ found: { hits, more, unreadable }, text }: { found: Found; text: string }) => (
  <div class="vstack gap-2">
    <p role="status">
      {hits.length === 0 ? "Nothing was found" : `${hits.length} shown${more.length > 0 ? ", there are more" : ""}`}
    </p>
    {hits.map((hit) => (
      <HitLine key={`${hit.kind} ${hit.id}`} hit={hit} />
    ))}
    {more.map((kind) => (
      <More key={kind} kind={kind} text={text} isAddress={unreadable !== null} />
    ))}
    {unreadable ? (
      <p>Guests’ addresses that could not be read: {unreadable}. APP_SECRETS lacks the secret that encrypted them.</p>
    ) : null}
  </div>
);

/** Shows what a text may mean, and opens it if it is one thing. `searchText`: unless the address has a text, such as an id. */
export function FindPage({ searchText }: { searchText: string }) {
  const { query, route } = useLocation();
  const text = query.q ?? searchText;
  // Each look-up of an address is audited.
  const isOnce = text.includes("@");
  const found = useRead(["find", text], () => core.find.byText.mutate({ text }), { enabled: text !== "", isOnce });
  const [hit, other] = found.data?.hits ?? [];
  const only = hit && !other && !found.data?.unreadable ? hrefOf(hit) : undefined;
  useEffect(() => {
    if (only) route(only, true);
  }, [only]);
  return (
    <Page title="Find">
      {text !== "" && <Loaded query={found}>{(data) => <Hits found={data} text={text} />}</Loaded>}
      <p class="text-body-secondary">
        Type an id or its beginning, an external id, a guest’s link or email address, an API key or its first 12
        characters, a Message-ID, or a part of a listing’s title or city, or of a user’s name or email address. What you
        type stays out of the page’s address. A look-up of a guest’s address is audited.
      </p>
    </Page>
  );
}
