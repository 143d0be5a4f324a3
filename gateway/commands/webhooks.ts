import { DELIVERY_STATES, EVENT_TYPES } from "../../server/constants.js";
import type { Endpoint } from "../../server/webhooks/schema.js";
import { command, noun } from "../cli/command.js";
import { argument, flag, option, optionalArgument, required, userFilter } from "../cli/fields.js";
import { list } from "../cli/list.js";
import { formatRecord } from "../cli/print.js";
import { LISTING_OPTION, listOf, oneOf, TEXT } from "../cli/readers.js";
import { describeProblem, TEST_TIMEOUT_MS, waitForAttempt } from "./actions/test-webhook.js";
import { formOption } from "./forms.js";

const NO_ENDPOINT = "There is no webhook endpoint with this id.";
const ENDPOINT_ID = { ...argument("<id>", TEXT), notFound: NO_ENDPOINT };
const ENDPOINT = { id: ENDPOINT_ID };

const KINDS = `KIND is one of ${EVENT_TYPES.join(", ")}.`;
const URLS = `URL is an https URL with a public host name. WEBHOOK_ALLOW_PRIVATE_ADDRESSES=true also allows http and private
addresses.`;

const filterOptions = (note: string) => ({
  events: option("--event <kind>", `only events of this kind; can be repeated (${note})`, listOf(oneOf(EVENT_TYPES))),
  listingIds: option(
    "--listing <listing>",
    `only events of forms on this listing, an id or external id; can be repeated (${note})`,
    listOf(LISTING_OPTION),
  ),
});

export const webhooks = noun("endpoints to which events of forms are sent", {
  create: command({
    description: "create an endpoint; its secret is shown only once",
    input: {
      url: required("--url <url>", "where events are sent", TEXT),
      userId: userFilter("events of forms in scope of this user's keys"),
      ...filterOptions("default: all"),
    },
    help: `${KINDS}
${URLS}
With --user the endpoint belongs to the user, who is notified by email if it is disabled because it failed. Without, it is the
operator's. An owner has at most 20.`,
    examples: [
      "guest-forms webhooks create --url https://example.com/webhooks --user host@example.com --event form.status_changed",
    ],
    call: ({ webhooks }, input) => webhooks.create(input),
    text: (endpoint) => formatSecret(withAll(endpoint)),
  }),
  list: list({
    description: "list endpoints, oldest first, without their secrets",
    input: { userId: userFilter("endpoints of this user") },
    help: `An endpoint without a user id is the operator's. "failing since" is its first failure since the last success.`,
    call: ({ webhooks }, input) => webhooks.list(input),
    columns: [
      ...(["id", "userId", "url"] as const),
      ["events", ({ events }) => orAll(events)],
      ...(["enabled", "disabledReason", "failingSince", "createdAt"] as const),
    ],
    none: "There are no webhook endpoints.",
  }),
  show: command({
    description: "show an endpoint, without its secret",
    input: ENDPOINT,
    help: `
Reasons why an endpoint is disabled: manual (by a command or its owner), gone (it answered 410), failing (all attempts of
three days have failed).`,
    call: ({ webhooks }, input) => webhooks.get(input),
    text: formatEndpoint,
  }),
  update: command({
    description: "change the given properties of an endpoint; deliveries that wait are sent to the new URL",
    input: {
      id: ENDPOINT_ID,
      url: option("--url <url>", "where events are sent", TEXT),
      ...filterOptions("replaces the ones before"),
      allEvents: { ...flag("--all-events", "send all events", true), conflicts: "event" },
      allListings: { ...flag("--all-listings", "send events of forms on all listings", true), conflicts: "listing" },
    },
    help: `${KINDS}
${URLS}`,
    examples: [
      "guest-forms webhooks update 5f0c6f0e-51a5-4c0c-8b0e-2f4f0d7f6c11 --url https://example.com/hooks --all-events",
    ],
    noOption: "Give at least one option to change.",
    call: ({ webhooks }, { allEvents, allListings, events, listingIds, ...change }) =>
      webhooks.update({
        ...change,
        events: allEvents ? [] : events,
        listingIds: allListings ? [] : listingIds,
      }),
    text: formatEndpoint,
  }),
  enable: command({
    description: "enable an endpoint; events from while it was disabled are not sent",
    input: ENDPOINT,
    call: ({ webhooks }, input) => webhooks.enable(input),
    text: formatEndpoint,
  }),
  disable: command({
    description: "disable an endpoint; its deliveries that wait fail at once",
    input: ENDPOINT,
    call: ({ webhooks }, input) => webhooks.disable(input),
    text: formatEndpoint,
  }),
  "rotate-secret": command({
    description: "replace an endpoint's secret; the old one also signs for 24 hours",
    input: ENDPOINT,
    help: "It can be repeated, for example if its output was lost: each of the last five secrets signs for 24 hours.",
    call: ({ webhooks }, input) => webhooks.rotateSecret(input),
    text: formatSecret,
  }),
  test: command({
    description: "send an event of type webhook.test, and print the outcome of its first attempt",
    input: ENDPOINT,
    help: `Waits up to ${TEST_TIMEOUT_MS / 1000} s. A running worker sends the event. The exit code is 1 if it is not delivered.`,
    call: async (core, input) => waitForAttempt(core, await core.webhooks.test(input)),
    text: ({ state, responseStatus, durationMs, ...delivery }) =>
      state === "sent"
        ? `Delivered: status ${responseStatus} after ${durationMs} ms.`
        : formatRecord({ ...delivery, state, responseStatus, durationMs }),
    problem: describeProblem,
  }),
  deliveries: list({
    description: "list the deliveries of an endpoint, of a form, or all in one state, newest first",
    input: {
      endpointId: { ...optionalArgument("[id]", TEXT), notFound: NO_ENDPOINT },
      formId: formOption("deliveries of this form to all endpoints"),
      state: option("--state <state>", "only deliveries in this state (default: all)", oneOf(DELIVERY_STATES)),
    },
    help: `
States: waiting (not tried yet), running (being sent), retrying (failed, retried at "next attempt at"), failed (given up
because all attempts have failed, the endpoint answered 410 or is disabled, or the worker crashed five times in a row), sent,
expired (not sent, because it waited for three days, or 50,000 newer ones waited), out_of_scope (not sent, because the
endpoint's owner may no longer see the form). With --json, the beginning of the last answer too, if it was a failure.`,
    check({ endpointId, formId, state }) {
      if ((endpointId ?? formId ?? state ?? "sent") === "sent")
        return "Give ID, --form, or --state with a state other than sent.";
      return endpointId !== undefined && formId !== undefined && "Give either ID or --form.";
    },
    call: ({ webhooks }, input) => webhooks.deliveries(input),
    columns: ({ endpointId }) => [
      "id",
      ...(endpointId === undefined ? (["endpointId"] as const) : []),
      ...(["createdAt", "event", "formId", "state", "attempts", "responseStatus", "durationMs"] as const),
      ...(["nextAttemptAt", "lastError"] as const),
    ],
    none: ({ endpointId, formId, state }) =>
      `There are no deliveries${endpointId ? " of this endpoint" : formId ? " of this form" : ""}${state ? ` in state ${state}` : ""}.`,
  }),
  redeliver: command({
    description: "send deliveries again now: one, all failed ones, or those of events in a time range",
    input: {
      endpointId: ENDPOINT_ID,
      id: optionalArgument("[delivery]", TEXT),
      failed: flag("--failed", "only those that have failed or expired, also those that would be retried later", true),
      since: option(
        "--since <instant>",
        "only events from this ISO 8601 instant on, such as 2030-01-31T00:00:00Z",
        TEXT,
      ),
      until: option("--until <instant>", "only events before this instant", TEXT),
    },
    help: `
DELIVERY is the id of a delivery, which is its webhook-id and stays the same: a receiver that has handled it may ignore it. The
form is sent as it is now. Deliveries that wait for their first attempt or are being sent are not changed. --since and --until
are about the time of the change.`,
    examples: [
      "guest-forms webhooks redeliver 5f0c6f0e-51a5-4c0c-8b0e-2f4f0d7f6c11 --failed --since 2030-01-31T00:00:00Z",
    ],
    check: ({ id, failed, since }) => (id ?? failed ?? since) === undefined && "Give DELIVERY, --failed or --since.",
    call: ({ webhooks }, input) => webhooks.redeliver(input),
    text: ({ redelivered }) => `Deliveries that are sent again: ${redelivered}.`,
  }),
  delete: command({
    description: "delete an endpoint with its deliveries",
    input: ENDPOINT,
    async consequences({ webhooks }, { id }) {
      const { url, userId } = await webhooks.get({ id });
      return {
        text: `The endpoint ${url} of ${userId ? `user ${userId}` : "the operator"} is deleted for good, with its secret and its deliveries, also those that wait. \`guest-forms webhooks disable\` keeps them.`,
        isDangerous: true,
      };
    },
    call: ({ webhooks }, input) => webhooks.delete(input),
    text: formatEndpoint,
  }),
});

const orAll = (names: string[]) => names.join(", ") || "all";

function withAll<Given extends Endpoint>({ events, listingIds, ...endpoint }: Given) {
  return { ...endpoint, events: orAll(events), listingIds: orAll(listingIds) };
}

function formatEndpoint(endpoint: Endpoint): string {
  return formatRecord(withAll(endpoint));
}

function formatSecret(record: object): string {
  return `${formatRecord(record)}\n\nSave the secret now: it is not shown again.`;
}
