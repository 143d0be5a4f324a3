import { maskEmail } from "../../server/notifications/compose.js";
import type { Mailer } from "../../server/notifications/mailer.js";

/** Prints messages instead of sending them. Bypasses the logger because a guest's link must never be logged. */
export const terminalMailer = (print: (text: string) => void): Mailer => ({
  from: "Guest forms <no-reply@example.com>",
  formUrlTemplate: "https://your-app.example.com/register/{publicId}",
  async send({ from, subject, text }, to) {
    const lines = [`From: ${from}`, `To: ${maskEmail(to)}`, `Subject: ${subject}`, "", ...`${text}`.split("\n")];
    print(`\nNotification, not sent because SMTP_URL is not set:\n\n  ${lines.join("\n  ").trimEnd()}\n`);
  },
});
