import { useLocation } from "preact-iso/router";
import { core, type Inputs, type Outputs } from "../core.js";
import { Badge, Time } from "../parts/cells.js";
import { Copy } from "../parts/copy.js";
import { EditButton, FormButton } from "../parts/dialog.js";
import { type Field, findUserId } from "../parts/form.js";
import { type Columns, ListPage } from "../parts/list.js";
import { Members } from "../parts/members.js";
import { Facts, Loaded, Page, Section } from "../parts/page.js";
import { AuditTrail } from "../parts/trail.js";
import { useListing } from "../queries.js";

type Listing = Outputs["listings"]["getAny"];

const ListingState = ({ active }: Listing) => <Badge text={active ? "active" : "inactive"} />;

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

const fieldsOf = (listing: Listing): Field[] =>
  [...FIELDS, ACTIVE].map((field) => ({ ...field, value: listing[field.name as keyof Listing] }));

const OWNER = { name: "ownerId", label: "Owner", hint: "Email address, external id or id of a user.", required: true };

const FILTERS = [
  { name: "search", label: "Title, city or external id" },
  { name: "userId", label: "User’s email address or id", find: findUserId },
];

export function ListingsPage() {
  const { route } = useLocation();
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
    <ListPage
      title="Listings"
      actions={create}
      filters={FILTERS}
      caption="Listings, newest first"
      read={(given, page) => core.listings.listAll.query({ ...given, ...page })}
      columns={COLUMNS}
      empty="No listing matches."
    />
  );
}

export function ListingPage({ id }: { id: string }) {
  const listing = useListing(id);
  return (
    <Page title={listing.data?.title ?? "Listing"}>
      <Loaded query={listing}>
        {(loaded) => (
          <>
            <Section
              title="Facts"
              actions={
                <EditButton
                  name={loaded.title}
                  fields={fieldsOf(loaded)}
                  send={(changes) => core.listings.update.mutate({ ...changes, id } as Inputs["listings"]["update"])}
                />
              }
            >
              <Facts
                facts={{
                  State: <ListingState {...loaded} />,
                  Address: `${loaded.address}, ${loaded.zipCode} ${loaded.city}, ${loaded.country}`,
                  District: loaded.district,
                  "Time zone": loaded.timezone,
                  "Language of the invitation": loaded.language ?? "Default",
                  "Maximum guests": loaded.maxPeopleInListing ?? "No limit",
                  "Maximum vehicles": loaded.maxVehicles ?? "No limit",
                  Pets: loaded.allowPets === null ? "Not set" : loaded.allowPets ? "Allowed" : "Not allowed",
                  "External id": loaded.externalId,
                  Created: <Time at={loaded.createdAt} />,
                  Forms: <a href={`/console/forms?listingId=${id}`}>All its forms</a>,
                  Id: <Copy text={id} />,
                  "Public id": <Copy text={loaded.publicId} />,
                }}
              />
            </Section>
            <Members listingId={id} />
            <AuditTrail id={id} />
          </>
        )}
      </Loaded>
    </Page>
  );
}
