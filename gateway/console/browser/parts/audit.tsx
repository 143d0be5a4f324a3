import { core } from "../core.js";
import { type Entry, What, Who } from "./entry.js";
import { TraceLink } from "./links.js";
import { type Columns, List } from "./list.js";
import { Section } from "./page.js";
import { Time } from "./time.js";

const COLUMNS: Columns<Entry> = {
  When: ({ at }) => <Time at={at} />,
  Who: (entry) => <Who entry={entry} />,
  What: (entry) => <What entry={entry} />,
  Request: ({ correlationId }) => <TraceLink id={correlationId} />,
};

/** The audit trail of a listing, user or endpoint. */
export const AuditTrail = ({ id }: { id: string }) => (
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
