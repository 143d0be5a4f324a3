import { userInfo } from "node:os";
import { readSettings, type Settings } from "../../server/config.js";
import { APP_SECRETS_MISSING } from "../../server/encryption.js";
import { MAX_OPERATOR_NAME } from "../../server/setting-values.js";
import { operatorName } from "../../server/texts.js";
import { readAppSecret, readDatabaseUrl } from "../dev/data-folder.js";
import { CommandFailure } from "./failure.js";

export type SettingsWithDatabase = Settings & { DATABASE_URL: string; APP_SECRETS: string[] };

/** The settings of a command that requires DATABASE_URL and APP_SECRETS. */
export const readSettingsWithDatabase = (): SettingsWithDatabase => requireDatabase(readSettings());

/**
 * Outside production, DATABASE_URL and APP_SECRETS default to those of a `dev` running in this folder. With its database,
 * WEBHOOK_ALLOW_PRIVATE_ADDRESSES also defaults to what it is there.
 */
export function readSettingsWithDatabaseOrDev(): SettingsWithDatabase {
  const settings = readSettingsOrDev();
  return requireDatabase(settings, isProduction(settings) ? "" : ", or run `guest-forms dev` in this folder");
}

/** As `readSettingsWithDatabaseOrDev`, but they may be missing. */
export function readSettingsOrDev(): Settings {
  const settings = readSettings();
  if (isProduction(settings)) return settings;
  const { DATABASE_URL = readDatabaseUrl(), APP_SECRETS } = settings;
  const secret = readAppSecret();
  const isOfDev = DATABASE_URL !== undefined && settings.DATABASE_URL === undefined;
  return {
    ...(isOfDev ? allowPrivateAddresses(settings) : settings),
    DATABASE_URL,
    APP_SECRETS: APP_SECRETS ?? (secret ? [secret] : undefined),
  };
}

/** The settings with WEBHOOK_ALLOW_PRIVATE_ADDRESSES, unless it is set. */
export const allowPrivateAddresses = <S extends Settings>(settings: S): S =>
  process.env.WEBHOOK_ALLOW_PRIVATE_ADDRESSES ? settings : { ...settings, WEBHOOK_ALLOW_PRIVATE_ADDRESSES: true };

const isProduction = ({ NODE_ENV }: Settings) => NODE_ENV === "production";

/** Who runs the command. Empty if the system has no name for its user, as in some containers. */
export function operatorOf({ GUEST_FORMS_OPERATOR }: Settings): string {
  const name = GUEST_FORMS_OPERATOR ?? (process.env.SUDO_USER || systemUser());
  return operatorName.safeParse(name.slice(0, MAX_OPERATOR_NAME)).data ?? "";
}

function systemUser(): string {
  try {
    return userInfo().username;
  } catch {
    return "";
  }
}

function requireDatabase(settings: Settings, orDev = ""): SettingsWithDatabase {
  const { DATABASE_URL, APP_SECRETS } = settings;
  if (DATABASE_URL && APP_SECRETS) return { ...settings, DATABASE_URL, APP_SECRETS };
  const missing = [
    DATABASE_URL ? "" : `${DATABASE_URL_MISSING}${orDev}.`,
    APP_SECRETS ? "" : `${APP_SECRETS_MISSING}.`,
  ];
  throw new CommandFailure(missing.join(" ").trim());
}

const DATABASE_URL_MISSING =
  "DATABASE_URL is not set: set it to the database to use, such as postgres://user:password@localhost/guest_forms";
