import { readFileSync, statSync } from "node:fs";
import { readSettings, type Settings } from "../../server/config.js";
import { databaseUrlFile } from "../dev/data-folder.js";
import { CommandFailure } from "./failure.js";

export type SettingsWithDatabase = Settings & { DATABASE_URL: string };

const DATABASE_URL_MISSING =
  "DATABASE_URL is not set: set it to the database to use, such as postgres://user:password@localhost/guest_forms";

/** The settings of a command that requires DATABASE_URL. */
export function readSettingsWithDatabase(): SettingsWithDatabase {
  const settings = readSettings();
  if (!settings.DATABASE_URL) throw new CommandFailure(`${DATABASE_URL_MISSING}.`);
  return { ...settings, DATABASE_URL: settings.DATABASE_URL };
}

/** Outside production, DATABASE_URL defaults to the database of a `dev` running in this folder. */
export function readSettingsWithDatabaseOrDev(): SettingsWithDatabase {
  const settings = readSettingsOrDev();
  const { DATABASE_URL } = settings;
  const orDev = isProduction(settings) ? "" : ", or run `guest-forms dev` in this folder";
  if (!DATABASE_URL) throw new CommandFailure(`${DATABASE_URL_MISSING}${orDev}.`);
  return { ...settings, DATABASE_URL };
}

/** As `readSettingsWithDatabaseOrDev`, but DATABASE_URL may be missing. */
export function readSettingsOrDev(): Settings {
  const settings = readSettings();
  if (settings.DATABASE_URL || isProduction(settings)) return settings;
  return { ...settings, DATABASE_URL: readDevDatabaseUrl() };
}

const isProduction = ({ NODE_ENV }: Settings) => NODE_ENV === "production";

function readDevDatabaseUrl(): string | undefined {
  try {
    // Ignore another user's file: commands must not use that user's database.
    if (process.getuid && statSync(databaseUrlFile()).uid !== process.getuid()) return undefined;
    return readFileSync(databaseUrlFile(), "utf8").trim() || undefined;
  } catch {
    return undefined;
  }
}

/** Whether PORT is set, so that no other port may be used. */
export const isPortSet = () => Boolean(process.env.PORT);
