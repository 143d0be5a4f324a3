import { readFileSync, statSync } from "node:fs";
import { readSettings, type Settings } from "../../server/config.js";
import { addressFile } from "../dev/data-folder.js";
import { CommandFailure } from "./failure.js";

export type WithDatabase = Settings & { DATABASE_URL: string };

const WANTED =
  "DATABASE_URL is not set: set it to the database to use, such as postgres://user:password@localhost/guest_forms";

/** The settings of a command that demands DATABASE_URL. */
export function settingsWithDatabase(): WithDatabase {
  const settings = readSettings();
  if (!settings.DATABASE_URL) throw new CommandFailure(`${WANTED}.`);
  return { ...settings, DATABASE_URL: settings.DATABASE_URL };
}

/** As `settingsWithDatabase`, but outside production content with the database of a `dev` running in this folder. */
export function settingsOrDev(): WithDatabase {
  const settings = settingsOrAddressOfDev();
  const { DATABASE_URL } = settings;
  const also = isProduction(settings) ? "" : ", or run `guest-forms dev` in this folder";
  if (!DATABASE_URL) throw new CommandFailure(`${WANTED}${also}.`);
  return { ...settings, DATABASE_URL };
}

/** The same, without DATABASE_URL if there is neither. */
export function settingsOrAddressOfDev(): Settings {
  const settings = readSettings();
  if (settings.DATABASE_URL || isProduction(settings)) return settings;
  return { ...settings, DATABASE_URL: addressOfDev() };
}

const isProduction = ({ NODE_ENV }: Settings) => NODE_ENV === "production";

function addressOfDev(): string | undefined {
  try {
    // Another user's file would have the commands talk to that user's database.
    if (process.getuid && statSync(addressFile()).uid !== process.getuid()) return undefined;
    return readFileSync(addressFile(), "utf8").trim() || undefined;
  } catch {
    return undefined;
  }
}

/** Whether someone chose the port, so that another must not be taken in its place. */
export const portIsChosen = () => Boolean(process.env.PORT);
