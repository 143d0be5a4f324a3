import { core, type Outputs } from "../core.js";
import { TraceLink, UserLink } from "./links.js";
import { type Columns, List } from "./list.js";
import { Section } from "./page.js";
import { Time } from "./time.js";

type Entry = Outputs["audit"]["trail"][number];

/** Who acted: an operator's name, or a user, maybe by a key. */
const Actor = ({ actor, actorName, userId }: Entry) => (
  <>
    {actorName ?? (userId ? <UserLink id={userId} /> : actor)}
    {(actorName || userId) && <small class="quiet">{actor}</small>}
  </>
);

const textOf = (value: unknown) =>
  Array.isArray(value) ? value.join(", ") : typeof value === "string" ? value : JSON.stringify(value);

const COLUMNS: Columns<Entry> = {
  When: ({ at }) => <Time at={at} />,
  Who: (entry) => <Actor {...entry} />,
  What: ({ action }) => action,
  Details: ({ details }) =>
    Object.entries(details).map(([name, value]) => (
      <div key={name}>
        <span class="quiet">{name}</span> {textOf(value)}
      </div>
    )),
  Trace: ({ correlationId }) => <TraceLink id={correlationId} />,
};

/** The audit trail of a listing, user, key or endpoint. */
export const Trail = ({ id }: { id: string }) => (
  <Section title="Audit trail">
    <List
      caption="Changes, newest first"
      listKey={["trail", id]}
      read={async ({ limit, cursor }) => {
        const items = await core.audit.trail.query({ subjectId: id, limit, ...(cursor && { before: cursor }) });
        return { items, nextCursor: items.length === limit ? (items.at(-1)?.id ?? null) : null };
      }}
      cursorName="before"
      columns={COLUMNS}
      keyOf={(entry) => entry.id}
      empty="Nothing was changed."
    />
  </Section>
);
