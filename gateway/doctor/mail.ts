import { readSettings } from "../../server/config.js";
import { openTransport } from "../../server/notifications/mailer.js";
import { type Check, ok, warning } from "./check.js";
import { reach } from "./reach.js";

export const mailServerCheck: Check = {
  name: "mail server",
  async run({ settings }) {
    const { SMTP_URL, NODE_ENV } = settings;
    if (!SMTP_URL) {
      const logged = "SMTP_URL is not set: notifications are logged, not sent.";
      return NODE_ENV === "production" ? warning(`${logged} Set SMTP_URL.`) : ok(logged);
    }
    const transport = openTransport(SMTP_URL, settings);
    // Connects and logs in, and sends nothing.
    return reach("The mail server", SMTP_URL, () => transport.verify()).finally(() => transport.close());
  },
};

export const mailSettingsCheck: Check = {
  name: "mail settings",
  run({ settings }) {
    const unset = readSettings({});
    const names = (["SMTP_FROM", "FORM_URL_TEMPLATE"] as const).filter(
      (name) => settings[name] === unset[name],
    );
    if (!settings.SMTP_URL || names.length === 0)
      return ok("Nothing is left at a default that guests would see.");
    const defaults = names.map((name) => `${name} (${unset[name]})`).join(" and ");
    return warning(`Guests would see the default of ${defaults}: set ${names.length > 1 ? "them" : "it"}.`);
  },
};
