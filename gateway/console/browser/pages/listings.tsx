import { useLocation } from "preact-iso/router";
import { core, type Inputs, type Outputs } from "../core.js";
import { Badge } from "../parts/badge.js";
import { FormButton } from "../parts/dialog.js";
import { Filters, filtersIn } from "../parts/filters.js";
import type { Field } from "../parts/form.js";
import { findUserId } from "../parts/links.js";
import { type Columns, List } from "../parts/list.js";
import { Page } from "../parts/page.js";
import { Time } from "../parts/time.js";

export type Listing = Outputs["listings"]["getAny"];

export const ListingState = ({ active }: Listing) => <Badge text={active ? "active" : "inactive"} />;

const COLUMNS: Columns<Listing> = {
  Listing: ({ id, title }) => <a href={`/console/listings/${id}`}>{title}</a>,
  State: ListingState,
  City: ({ city, country }) => `${city}, ${country}`,
  "Time zone": ({ timezone }) => timezone,
  "External id": ({ externalId }) => externalId,
  Created: ({ createdAt }) => <Time at={createdAt} />,
};

const FLAG = [
  ["true", "Yes"],
  ["false", "No"],
] as const;

const FIELDS: Field[] = [
  { name: "title", label: "Title", required: true },
  { name: "address", label: "Street and number", required: true },
  { name: "zipCode", label: "Postal code", required: true },
  { name: "city", label: "City", required: true },
  { name: "district", label: "District" },
  { name: "country", label: "Country", required: true },
  { name: "timezone", label: "Time zone", hint: "Such as Europe/Berlin.", required: true },
  { name: "language", label: "Language of the invitation", hint: "Such as de or pt-BR. Empty: the default." },
  { name: "maxPeopleInListing", label: "Maximum guests", type: "number", hint: "Empty: no limit." },
  { name: "maxVehicles", label: "Maximum vehicles", type: "number", hint: "Empty: no limit." },
  { name: "allowPets", label: "Pets allowed", options: [["", "Not set"], ...FLAG] },
];

const ACTIVE = { name: "active", label: "Active", hint: "No: no new forms on it. Its forms stay.", options: FLAG };

export const listingFields = (listing: Listing): Field[] =>
  [...FIELDS, ACTIVE].map((field) => ({ ...field, value: listing[field.name as keyof Listing] }));

const OWNER = { name: "ownerId", label: "Owner", hint: "Email address, external id or id of a user.", required: true };

const FILTERS = [
  { name: "search", label: "Title, city or external id" },
  { name: "userId", label: "User’s email address or id", find: findUserId },
];

export function ListingsPage() {
  const { query, route } = useLocation();
  const filters: Inputs["listings"]["listAll"] = filtersIn(query, FILTERS);
  const create = (
    <FormButton
      label="New listing"
      class="btn-primary"
      submit="Create"
      fields={[OWNER, ...FIELDS]}
      send={async (values) => {
        const ownerId = await findUserId(values, "ownerId");
        return core.listings.create.mutate({ ...values, ownerId } as Inputs["listings"]["create"]);
      }}
      done={({ title }) => `${title} was created.`}
      onDone={({ id }) => route(`/console/listings/${id}`)}
    />
  );
  return (
    <Page title="Listings" actions={create}>
      <Filters filters={FILTERS} />
      <List
        caption="Listings, newest first"
        listKey={["listings", filters]}
        read={(page) => core.listings.listAll.query({ ...filters, ...page })}
        columns={COLUMNS}
        keyOf={({ id }) => id}
        empty="No listing matches."
      />
    </Page>
  );
}
