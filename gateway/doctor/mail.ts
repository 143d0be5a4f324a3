import { openTransport } from "../../server/notifications/mailer.js";
import { type Check, ok, warning } from "./check.js";
import { reach } from "./reach.js";

export const mailServerCheck: Check = {
  name: "mail server",
  async run({ settings }) {
    const { SMTP_URL, NODE_ENV } = settings;
    if (!SMTP_URL) {
      const wait = "SMTP_URL is not set: notifications wait, except in `dev`.";
      return NODE_ENV === "production" ? warning(`${wait} Set SMTP_URL.`) : ok(wait);
    }
    const transport = openTransport(SMTP_URL, settings);
    // Connects and logs in, and sends nothing.
    return reach("The mail server", SMTP_URL, () => transport.verify()).finally(() => transport.close());
  },
};
