import { core, type Inputs } from "../core.js";
import { Action, Instant } from "../parts/action.js";
import { AuditTrail } from "../parts/audit.js";
import { Copy } from "../parts/copy.js";
import { changesOf } from "../parts/form.js";
import { Table } from "../parts/list.js";
import { Members } from "../parts/members.js";
import { Facts, Page, Section } from "../parts/page.js";
import { Loaded } from "../parts/states.js";
import { Time } from "../parts/time.js";
import { useListing, useRead } from "../queries.js";
import { FORM_COLUMNS } from "./forms.js";
import { type Listing, ListingState, listingFields } from "./listings.js";

export function ListingPage({ id }: { id: string }) {
  const listing = useListing(id);
  return (
    <Page title={listing.data?.title ?? "Listing"} actions={listing.data && <Actions listing={listing.data} />}>
      <Loaded query={listing}>
        {(listing) => (
          <div class="stack">
            <section class="card" aria-label="Facts">
              <ListingFacts listing={listing} />
            </section>
            <Members listingId={id} />
            <NewestForms listingId={id} />
            <AuditTrail id={id} />
          </div>
        )}
      </Loaded>
    </Page>
  );
}

const ListingFacts = ({ listing }: { listing: Listing }) => (
  <Facts
    of={[
      ["State", <ListingState {...listing} />],
      ["Address", `${listing.address}, ${listing.zipCode} ${listing.city}, ${listing.country}`],
      ["District", listing.district],
      ["Time zone", listing.timezone],
      ["Language of the invitation", listing.language ?? "Default"],
      ["Guests at most", listing.maxPeopleInListing ?? "No limit"],
      ["Vehicles at most", listing.maxVehicles ?? "No limit"],
      ["Pets", listing.allowPets === null ? "Not set" : listing.allowPets ? "Allowed" : "Not allowed"],
      ["External id", listing.externalId],
      ["Created", <Time at={listing.createdAt} />],
      ["Id", <Copy text={listing.id} />],
      ["Public id", <Copy text={listing.publicId} />],
    ]}
  />
);

function Actions({ listing }: { listing: Listing }) {
  const { id, title, active } = listing;
  const fields = listingFields(listing);
  return (
    <>
      <Action
        label="Edit"
        title={`Edit ${title}`}
        submit="Save"
        fields={fields}
        send={(values) =>
          core.listings.update.mutate({ ...changesOf(values, fields), id } as Inputs["listings"]["update"])
        }
        done={({ title }) => `${title} was saved.`}
      />
      {active ? (
        <Action
          label="Deactivate"
          title={`Deactivate ${title}`}
          class="danger"
          isDangerous
          send={() => core.listings.deactivate.mutate({ id })}
          done={() => `${title} is inactive.`}
          note="No new forms can be created on it or moved to it. Its forms stay as they are."
        />
      ) : (
        <Instant
          label="Activate"
          class="primary"
          send={() => core.listings.update.mutate({ id, active: true })}
          done={() => `${title} is active.`}
        />
      )}
    </>
  );
}

const NEWEST = 5;

const { Listing: _, ...FORM_COLUMNS_OF_LISTING } = FORM_COLUMNS;

function NewestForms({ listingId }: { listingId: string }) {
  const forms = useRead(["forms", { listingId }, NEWEST], () => core.forms.listAll.query({ listingId, limit: NEWEST }));
  return (
    <Section title="Newest forms" actions={<a href={`/console/forms?listingId=${listingId}`}>All its forms</a>}>
      <Loaded query={forms}>
        {({ items }) => (
          <Table
            caption="Its newest forms"
            columns={FORM_COLUMNS_OF_LISTING}
            rows={items}
            keyOf={({ id }) => id}
            empty="It has no forms."
          />
        )}
      </Loaded>
    </Section>
  );
}
