import { expect, test } from "vitest";
import { asOperator, catchErrorCode, makeUser, openTestServices, setRole } from "../support/factories.js";
import { makeListingOwner } from "../support/listing-owner.js";

test("of concurrent removals of one membership, one succeeds and is audited, the others are RESOURCE_NOT_FOUND", async () => {
  const services = await openTestServices();
  const { listingId } = await makeListingOwner(services);
  const member = await makeUser(services);
  const operator = asOperator(services);
  for (let round = 1; round <= 5; round++) {
    await setRole(services, listingId, member.id, "WRITER");
    const outcomes = await Promise.all(
      Array.from({ length: 5 }, () => {
        const removal = operator.members.remove({ listingId, userId: member.id });
        return removal.then(
          ({ role }) => role,
          () => catchErrorCode(removal),
        );
      }),
    );
    expect(outcomes.toSorted()).toEqual([...Array(4).fill("RESOURCE_NOT_FOUND"), "WRITER"]);
    const trail = await operator.audit.trail({ subjectId: listingId, limit: 1000 });
    expect(trail.filter(({ action }) => action === "member.removed")).toHaveLength(round);
  }
});
