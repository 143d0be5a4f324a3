import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { makeTempFolder } from "../support/run-tool.js";

export interface Size {
  users: number;
  listings: number;
  membersPerListing: number;
}

/** Rows of a portfolio. */
export function portfolio({ users, listings, membersPerListing }: Size): object[] {
  const ofUsers = Array.from({ length: users }, (_, index) => ({
    type: "user",
    externalId: `user-${index}`,
    email: `host${index}@example.com`,
    name: `Host ${index}`,
  }));
  const ofListings = Array.from({ length: listings }, (_, index) => ({
    type: "listing",
    externalId: `listing-${index}`,
    title: `Loft ${index}`,
    address: `Kanalweg ${index}`,
    city: "Berlin",
    country: "Germany",
    zipCode: "10997",
    timezone: "Europe/Berlin",
    maxPeopleInListing: 1 + (index % 8),
  }));
  const roles = ["OWNER", "WRITER", "READER"];
  const memberships = ofListings.flatMap(({ externalId: listing }, index) =>
    Array.from({ length: membersPerListing }, (_, member) => ({
      type: "membership",
      listing,
      user: `user-${(index * 7 + member) % users}`,
      role: roles[member % roles.length],
    })),
  );
  return [...memberships, ...ofListings, ...ofUsers];
}

/** Writes rows as NDJSON. The file is removed after the test file. */
export async function writeRows(rows: readonly object[]): Promise<string> {
  const path = join(await makeTempFolder("import"), "portfolio.ndjson");
  await writeFile(path, rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  return path;
}
