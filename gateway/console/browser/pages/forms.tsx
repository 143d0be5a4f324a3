import { useLocation } from "preact-iso/router";
import { KNOWN_STATUSES } from "../../../../server/forms/status.js";
import { core, type Inputs, type Outputs } from "../core.js";
import { Badge } from "../parts/badge.js";
import { type Filter, Filters, filtersIn } from "../parts/filters.js";
import { FormLink, findListingId, findUserId, ListingLink, UserLink } from "../parts/links.js";
import { type Columns, List } from "../parts/list.js";
import { Page } from "../parts/page.js";
import { Time } from "../parts/time.js";

const COLUMNS: Columns<Outputs["forms"]["listAll"]["items"][number]> = {
  Form: ({ id }) => <FormLink id={id} />,
  Status: ({ status }) => <Badge text={status} />,
  Listing: ({ listingId }) => <ListingLink id={listingId} />,
  "Check-in": ({ checkInDate, listingId }) => <Time at={checkInDate} listingId={listingId} />,
  Guests: ({ numberOfGuests }) => numberOfGuests,
  Created: ({ createdAt }) => <Time at={createdAt} />,
};

const FILTERS: Filter[] = [
  { name: "status", label: "Status", options: [["", "All"], ...KNOWN_STATUSES.map((one) => [one, one] as const)] },
  { name: "checkInDay", label: "Check-in on", type: "date" },
  { name: "listingId", label: "Listing’s id or external id", find: findListingId },
  { name: "userId", label: "User’s email address or id", find: findUserId },
];

export function FormsPage() {
  const { query } = useLocation();
  const filters: Inputs["forms"]["listAll"] = filtersIn(query, FILTERS);
  const { listingId, userId } = filters;
  return (
    <Page title="Forms">
      <Filters filters={FILTERS} />
      {listingId && <p class="mb-0">On {<ListingLink id={listingId} />}</p>}
      {userId && <p class="mb-0">Forms of {<UserLink id={userId} />}</p>}
      <List
        caption="Forms, newest first"
        listKey={["forms", filters]}
        read={(page) => core.forms.listAll.query({ ...filters, ...page })}
        columns={COLUMNS}
        keyOf={({ id }) => id}
        empty="No form matches. To open a form by its id, or by the guest’s link, use Find at the top."
      />
    </Page>
  );
}
