import { core, type Inputs } from "../core.js";
import { Copy } from "../parts/copy.js";
import { EditButton } from "../parts/dialog.js";
import { Loaded } from "../parts/loaded.js";
import { Members } from "../parts/members.js";
import { Facts, Page, Section } from "../parts/page.js";
import { Time } from "../parts/time.js";
import { AuditTrail } from "../parts/trail.js";
import { useListing } from "../queries.js";
import { ListingState, listingFields } from "./listings.js";

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
          </div>
        )}
      </Loaded>
    </Page>
  );
}
