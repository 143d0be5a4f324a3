import { useLocation } from "preact-iso/router";
import { KNOWN_STATUSES } from "../../../../server/forms/status.js";
import { core, type Inputs, type Outputs } from "../core.js";
import { Badge } from "../parts/badge.js";
import { type Filter, Filters } from "../parts/filters.js";
import { FormLink, ListingLink, UserLink } from "../parts/links.js";
import { type Columns, List } from "../parts/list.js";
import { Page } from "../parts/page.js";
import { Ago, ZonedTime } from "../parts/time.js";
import { useListing } from "../queries.js";

export type Form = Outputs["forms"]["listAll"]["items"][number];

/** A time of a stay, in the time zone of the form's listing. */
export const StayTime = ({ at, listingId }: { at: string | null; listingId: string }) => (
  <ZonedTime at={at} zone={useListing(listingId).data?.timezone} />
);

export const FORM_COLUMNS: Columns<Form> = {
  Form: ({ id }) => <FormLink id={id} />,
  Status: ({ status }) => <Badge of={status} />,
  Listing: ({ listingId }) => <ListingLink id={listingId} />,
  "Check-in": ({ checkInDate, listingId }) => <StayTime at={checkInDate} listingId={listingId} />,
  Guests: ({ numberOfGuests }) => numberOfGuests,
  Created: ({ createdAt }) => <Ago at={createdAt} />,
};

const FILTERS: Filter[] = [
  { name: "status", label: "Status", options: [["", "All"], ...KNOWN_STATUSES.map((one) => [one, one] as const)] },
  { name: "checkInDay", label: "Check-in on", type: "date" },
  { name: "listingId", label: "Listing id", isWide: true },
  { name: "userId", label: "User id", isWide: true },
];

export function FormsPage() {
  const { query } = useLocation();
  const given = FILTERS.flatMap(({ name }) => (query[name] ? [[name, query[name]]] : []));
  const filters: Inputs["forms"]["listAll"] = Object.fromEntries(given);
  const { listingId, userId } = query;
  return (
    <Page title="Forms">
      <Filters of={FILTERS} />
      {(listingId || userId) && (
        <p>
          {listingId && (
            <>
              On <ListingLink id={listingId} />{" "}
            </>
          )}
          {userId && (
            <>
              In the scope of <UserLink id={userId} />
            </>
          )}
        </p>
      )}
      <List
        caption="Forms, newest first"
        listKey={["forms", filters]}
        read={(page) => core.forms.listAll.query({ ...filters, ...page })}
        columns={FORM_COLUMNS}
        keyOf={({ id }) => id}
        empty="No form matches. To open a form by its id, or by the guest’s link, use Find at the top."
      />
    </Page>
  );
}
