import { headOf, type Message, type SenderSettings } from "./sender.js";

export interface DisabledEndpoint {
  url: string;
  disabledAt: string;
  /** "gone": it answered 410. "failing": all attempts of three days have failed. */
  reason: string;
  /** The address of its owner. */
  to: string;
}

/** Composes the email that notifies the owner of a webhook endpoint that it was disabled. */
export function composeEndpointDisabled(
  settings: SenderSettings,
  { messageId, to, ...endpoint }: DisabledEndpoint & { messageId: string },
): Message {
  const { origin, pathname } = new URL(endpoint.url);
  const reason = endpoint.reason === "gone" ? "it answered 410 Gone" : "all attempts of three days have failed";
  return {
    ...headOf(settings, { messageId, to }),
    subject: "Your webhook endpoint was disabled",
    text: [
      "Hello,",
      "",
      // The query may hold a secret.
      `your webhook endpoint ${origin}${pathname} was disabled at ${endpoint.disabledAt}, because ${reason}.`,
      "",
      "It receives no more events. To receive them again, fix the receiver, have the endpoint enabled and the failed deliveries",
      "sent again by the operator of the service, then read the list of forms: events from while it was disabled are not sent.",
      "",
    ].join("\n"),
  };
}
