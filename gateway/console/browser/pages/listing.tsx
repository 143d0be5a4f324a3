import { core, type Inputs } from "../core.js";
import { Copy } from "../parts/copy.js";
import { EditButton } from "../parts/dialog.js";
import { Members } from "../parts/members.js";
import { Facts, Page, Section } from "../parts/page.js";
import { Loaded } from "../parts/states.js";
import { Time } from "../parts/time.js";
import { AuditTrail } from "../parts/trail.js";
import { useListing } from "../queries.js";
import { type Listing, ListingState, listingFields } from "./listings.js";

export function ListingPage({ id }: { id: string }) {
  const listing = useListing(id);
  return (
    <Page title={listing.data?.title ?? "Listing"}>
      <Loaded query={listing}>
        {(loaded) => (
          <div class="vstack gap-4">
            <Section
              title="Facts"
              actions={
                <EditButton
                  name={loaded.title}
                  fields={listingFields(loaded)}
                  send={(changes) => core.listings.update.mutate({ ...changes, id } as Inputs["listings"]["update"])}
                />
              }
            >
              <ListingFacts listing={loaded} />
            </Section>
            <Members listingId={id} />
            <AuditTrail id={id} />
          </div>
        )}
      </Loaded>
    </Page>
  );
}

const ListingFacts = ({ listing }: { listing: Listing }) => (
  <Facts
    facts={{
      State: <ListingState {...listing} />,
      Address: `${listing.address}, ${listing.zipCode} ${listing.city}, ${listing.country}`,
      District: listing.district,
      "Time zone": listing.timezone,
      "Language of the invitation": listing.language ?? "Default",
      "Guests at most": listing.maxPeopleInListing ?? "No limit",
      "Vehicles at most": listing.maxVehicles ?? "No limit",
      Pets: listing.allowPets === null ? "Not set" : listing.allowPets ? "Allowed" : "Not allowed",
      "External id": listing.externalId,
      Created: <Time at={listing.createdAt} />,
      Forms: <a href={`/console/forms?listingId=${listing.id}`}>All its forms</a>,
      Id: <Copy text={listing.id} />,
      "Public id": <Copy text={listing.publicId} />,
    }}
  />
);
