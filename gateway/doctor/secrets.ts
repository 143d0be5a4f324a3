import { checkSecrets } from "../../server/secret-checks.js";
import { type DatabaseCheck, failed, ok, warning } from "./check.js";

export const secretsCheck: DatabaseCheck = {
  name: "secrets",
  async run({ settings }, db) {
    await checkSecrets(db.pool, settings.APP_SECRETS ?? []);
    if (settings.APP_SECRETS) return ok("APP_SECRETS is known to the database.");
    if ((await db.prisma.storedSecret.count()) === 0) {
      return failed("There is no secret: set APP_SECRETS, or run `guest-forms migrate`, which stores one.");
    }
    const stored =
      "APP_SECRETS is not set: the secret is stored in the database, and dumps of it contain it.";
    return settings.NODE_ENV === "production" ? warning(`${stored} Set APP_SECRETS.`) : ok(stored);
  },
};
