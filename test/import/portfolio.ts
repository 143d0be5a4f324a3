import { mkdtempSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterFile } from "../support/after-file.js";
import { runCli } from "../support/processes.js";
import { runSql } from "../support/run-sql.js";

export interface Size {
  users: number;
  listings: number;
  membersPerListing: number;
}

/** Rows of a portfolio. `title` distinguishes versions of its listings. */
export function portfolio({ users, listings, membersPerListing }: Size, title = "Loft"): object[] {
  const ofUsers = Array.from({ length: users }, (_, index) => ({
    type: "user",
    externalId: `user-${index}`,
    email: `host${index}@example.com`,
    name: `Host ${index}`,
  }));
  const ofListings = Array.from({ length: listings }, (_, index) => ({
    type: "listing",
    externalId: `listing-${index}`,
    title: `${title} ${index}`,
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

let folder: string | undefined;

/** Writes rows as NDJSON. The file is removed after the test file. */
export function writeRows(name: string, rows: readonly object[]): string {
  if (!folder) {
    const created = mkdtempSync(join(tmpdir(), "guest-forms-import-"));
    afterFile(() => rm(created, { recursive: true }));
    folder = created;
  }
  const path = join(folder, name);
  writeFileSync(path, rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  return path;
}

/** What an import has made, as sorted rows of an export, and the audited actions. */
export async function stateOf(env: Record<string, string>): Promise<{ rows: string[]; audited: unknown[] }> {
  const { code, stdout, stderr } = await runCli(["export", "--format", "ndjson"], { env });
  if (code !== 0) throw new Error(stderr);
  const audited = await runSql(
    env.DATABASE_URL ?? "",
    "SELECT action, count(*)::int, count(DISTINCT (subject_id, details))::int AS different FROM audit_entries GROUP BY 1 ORDER BY 1",
  );
  return { rows: stdout.split("\n").sort(), audited };
}
