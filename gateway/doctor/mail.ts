import { openTransport } from "../../server/notifications/mailer.js";
import { type Check, ok, warning } from "./check.js";
import { checkConnection } from "./check-connection.js";

export const mailServerCheck: Check = {
  name: "mail server",
  async run({ settings }) {
    const { SMTP_URL, NODE_ENV } = settings;
    if (!SMTP_URL) {
      const notSent = "SMTP_URL is not set: notifications wait. Only `dev` prints them.";
      return NODE_ENV === "production" ? warning(`${notSent} Set SMTP_URL.`) : ok(notSent);
    }
    const transport = openTransport(SMTP_URL, settings);
    // Connects and logs in without sending mail.
    return checkConnection("The mail server", SMTP_URL, () => transport.verify()).finally(() =>
      transport.close(),
    );
  },
};
