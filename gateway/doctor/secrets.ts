import { checkSecrets, findDroppedSecrets } from "../../server/secret-checks.js";
import { type CheckResult, type DatabaseCheck, failed, ok, warning } from "./check.js";

export const secretsCheck: DatabaseCheck = {
  name: "secrets",
  async run({ settings }, db) {
    const isKnown = await checkSecrets(db.pool, settings.APP_SECRETS ?? []);
    const hasStored = (await db.prisma.storedSecret.count()) > 0;
    if (settings.APP_SECRETS) {
      const [dropped] = await findDroppedSecrets(db.pool, settings.APP_SECRETS);
      if (dropped) return warnAboutDropped(dropped);
      return isKnown || !hasStored
        ? ok(isKnown ? "The database knows APP_SECRETS." : "The next start registers APP_SECRETS.")
        : warning(
            "The database stores a secret and does not know APP_SECRETS yet: stop all processes before you start one with APP_SECRETS.",
          );
    }
    if (!hasStored) {
      return failed("There is no secret: set APP_SECRETS, or run `guest-forms migrate` to store one.");
    }
    const stored = "APP_SECRETS is not set: the secret is stored in the database and contained in its dumps.";
    return settings.NODE_ENV === "production" ? warning(`${stored} Set APP_SECRETS.`) : ok(stored);
  },
};

const warnAboutDropped = ({ id, neededUntil }: { id: string; neededUntil: Date | null }): CheckResult =>
  warning(
    neededUntil
      ? `APP_SECRETS lacks the secret ${id}, which is needed until ${neededUntil.toISOString()}: list it behind the newest one until then.`
      : `APP_SECRETS lacks the secret ${id}, which may still be needed: run \`guest-forms secrets reencrypt\`, with it listed behind the newest one if you still have it.`,
  );
