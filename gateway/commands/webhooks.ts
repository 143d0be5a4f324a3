import { setTimeout as sleep } from "node:timers/promises";
import { type Command, InvalidArgumentError, Option } from "commander";
import type { Caller } from "../../server/caller.js";
import { DELIVERY_STATES, EVENT_TYPES, type EventType, MAX_LIMIT } from "../../server/constants.js";
import type { Delivery, Endpoint } from "../../server/webhooks/schema.js";
import { addDataCommand, addListCommand, required, USER_REFERENCE } from "../cli/data-command.js";
import { formatRecord, formatTable } from "../cli/print.js";
import type { Finders } from "../cli/services.js";
import { listOf } from "../cli/values.js";
import { FORM_HELP } from "./forms.js";

const NO_ENDPOINT = "There is no webhook endpoint with this id.";
const OPTION_NAMES = { id: "ID" };
const ENDPOINT = { optionNames: OPTION_NAMES, notFound: NO_ENDPOINT };

const KINDS = `KIND is one of ${EVENT_TYPES.join(", ")}.`;
const URLS = `URL is an https URL with a public host name. WEBHOOK_ALLOW_PRIVATE_ADDRESSES=true also allows http and private
addresses.`;

const TEST_TIMEOUT_MS = 15_000;
const TEST_POLL_MS = 250;

interface Filters {
  event?: EventType[];
  listing?: string[];
}

interface UpdateOptions extends Filters {
  id: string;
  url?: string;
  allEvents?: true;
  allListings?: true;
}

interface RedeliverOptions {
  id: string;
  delivery?: string;
  failed?: true;
  since?: string;
  until?: string;
}

interface DeliveriesOptions {
  id?: string;
  form?: string;
  state?: Delivery["state"];
}

export function addWebhooks(program: Command): void {
  const webhooks = program.command("webhooks").description("endpoints to which events of forms are sent");
  addDataCommand(webhooks, "create", {
    description: "create an endpoint; its secret is shown only once",
    options: [
      required("--url <url>", "where events are sent"),
      new Option(
        "--user <user>",
        `only events of forms in scope of this user's keys; an ${USER_REFERENCE} (default: all)`,
      ),
      ...filterOptions("default: all"),
    ],
    help: `${KINDS}
${URLS}
With --user the endpoint belongs to the user, who is notified by email if it is disabled because it failed. Without, it is the
operator's. An owner has at most 20.

Example:
  guest-forms webhooks create --url https://example.com/webhooks --user host@example.com --event form.status_changed`,
    call: async (core, { url, user, ...filters }: { url: string; user?: string } & Filters, find) =>
      core.webhooks.create({ url, userId: await find.findUser("--user", user), ...(await readFilters(filters, find)) }),
    text: (endpoint) => withSecret(withAll(endpoint)),
    optionNames: { listingIds: "--listing" },
  });
  addListCommand(webhooks, "list", {
    description: "list endpoints, oldest first, without their secrets",
    options: [new Option("--user <user>", `only endpoints of this user; an ${USER_REFERENCE} (default: all)`)],
    help: `An endpoint without a user id is the operator's. "failing since" is its first failure since the last success.`,
    call: async (core, { user, ...page }: { user?: string }, { findUser }) =>
      core.webhooks.list({ ...page, userId: await findUser("--user", user) }),
    table: (items) =>
      formatTable(
        items.map(withAll),
        ["id", "userId", "url", "events", "enabled", "disabledReason", "failingSince", "createdAt"],
        "There are no webhook endpoints.",
      ),
  });
  addDataCommand(webhooks, "show <id>", {
    description: "show an endpoint, without its secret",
    help: `
Reasons why an endpoint is disabled: manual (by a command or its owner), gone (it answered 410), failing (all attempts of
three days have failed).`,
    call: (core, given: { id: string }) => core.webhooks.get(given),
    text: formatEndpoint,
    ...ENDPOINT,
  });
  addDataCommand(webhooks, "update <id>", {
    description: "change the given properties of an endpoint; deliveries that wait are sent to the new URL",
    options: [
      new Option("--url <url>", "where events are sent"),
      ...filterOptions("replaces the ones before"),
      new Option("--all-events", "send all events").conflicts("event"),
      new Option("--all-listings", "send events of forms on all listings").conflicts("listing"),
    ],
    help: `${KINDS}
${URLS}

Example:
  guest-forms webhooks update 5f0c6f0e-51a5-4c0c-8b0e-2f4f0d7f6c11 --url https://example.com/hooks --all-events`,
    check({ id: _id, json: _json, ...changes }: UpdateOptions & { json?: true }) {
      if (Object.keys(changes).length === 0) throw new InvalidArgumentError("Give at least one option to change.");
    },
    call: async (core, { id, url, allEvents, allListings, ...filters }: UpdateOptions, find) =>
      core.webhooks.update({
        id,
        url,
        ...(await readFilters(filters, find)),
        ...(allEvents && { events: [] }),
        ...(allListings && { listingIds: [] }),
      }),
    text: formatEndpoint,
    notFound: NO_ENDPOINT,
    optionNames: { ...OPTION_NAMES, listingIds: "--listing" },
  });
  addDataCommand(webhooks, "enable <id>", {
    description: "enable an endpoint; events from while it was disabled are not sent",
    call: (core, given: { id: string }) => core.webhooks.enable(given),
    text: formatEndpoint,
    ...ENDPOINT,
  });
  addDataCommand(webhooks, "disable <id>", {
    description: "disable an endpoint; its deliveries that wait fail at once",
    call: (core, given: { id: string }) => core.webhooks.disable(given),
    text: formatEndpoint,
    ...ENDPOINT,
  });
  addDataCommand(webhooks, "rotate-secret <id>", {
    description: "replace an endpoint's secret; the old one also signs for 24 hours",
    help: "It can be repeated, for example if its output was lost: each of the last five secrets signs for 24 hours.",
    call: (core, given: { id: string }) => core.webhooks.rotateSecret(given),
    text: withSecret,
    ...ENDPOINT,
  });
  addDataCommand(webhooks, "test <id>", {
    description: "send an event of type webhook.test, and print the outcome of its first attempt",
    help: `Waits up to ${TEST_TIMEOUT_MS / 1000} s. A running worker sends the event. The exit code is 1 if it is not delivered.`,
    call: async (core, given: { id: string }) => waitForAttempt(core, await core.webhooks.test(given)),
    text: ({ state, responseStatus, durationMs, ...delivery }) =>
      state === "sent"
        ? `Delivered: status ${responseStatus} after ${durationMs} ms.`
        : formatRecord({ ...delivery, state, responseStatus, durationMs }),
    problem: describeProblem,
    ...ENDPOINT,
  });
  addListCommand(webhooks, "deliveries [id]", {
    description: "list the deliveries of an endpoint, of a form, or all in one state, newest first",
    options: [
      new Option("--form <form>", "deliveries of this form to all endpoints"),
      new Option("--state <state>", "only deliveries in this state (default: all)").choices(DELIVERY_STATES),
    ],
    help: `
States: waiting (not tried yet), running (being sent), retrying (failed, retried at "next attempt at"), failed (given up
because all attempts have failed, the endpoint answered 410 or is disabled, or the worker crashed five times in a row), sent,
expired (not sent, because it waited for three days, or 50,000 newer ones waited), out_of_scope (not sent, because the
endpoint's owner may no longer see the form). With --json, the beginning of the last answer too, if it was a failure.
${FORM_HELP}`,
    check({ id, form, state }: DeliveriesOptions) {
      if ((id ?? form ?? state ?? "sent") === "sent")
        throw new InvalidArgumentError("Give ID, --form, or --state with a state other than sent.");
      if (id !== undefined && form !== undefined) throw new InvalidArgumentError("Give either ID or --form.");
    },
    call: async (core, { id, form, ...given }: DeliveriesOptions, { findForm }) =>
      core.webhooks.deliveries({ ...given, endpointId: id, formId: form && (await findForm(form)) }),
    table: (items, { id, form, state }) =>
      formatTable(
        items,
        [
          "id",
          ...(id === undefined ? (["endpointId"] as const) : []),
          "createdAt",
          "event",
          "formId",
          "state",
          "attempts",
          "responseStatus",
          "durationMs",
          "nextAttemptAt",
          "lastError",
        ],
        `There are no deliveries${id ? " of this endpoint" : form ? " of this form" : ""}${state ? ` in state ${state}` : ""}.`,
      ),
    notFound: NO_ENDPOINT,
    optionNames: { endpointId: "ID" },
  });
  addDataCommand(webhooks, "redeliver <id> [delivery]", {
    description: "send deliveries again now: one, all failed ones, or those of events in a time range",
    options: [
      new Option("--failed", "only those that have failed or expired, also those that would be retried later"),
      new Option("--since <instant>", "only events from this ISO 8601 instant on, such as 2030-01-31T00:00:00Z"),
      new Option("--until <instant>", "only events before this instant"),
    ],
    help: `
DELIVERY is the id of a delivery, which is its webhook-id and stays the same: a receiver that has handled it may ignore it. The
form is sent as it is now. Deliveries that wait for their first attempt or are being sent are not changed. --since and --until
are about the time of the change.

Example:
  guest-forms webhooks redeliver 5f0c6f0e-51a5-4c0c-8b0e-2f4f0d7f6c11 --failed --since 2030-01-31T00:00:00Z`,
    check({ delivery, failed, since }: RedeliverOptions) {
      if (!(delivery || failed || since)) throw new InvalidArgumentError("Give DELIVERY, --failed or --since.");
    },
    call: (core, { id, delivery, failed, since, until }: RedeliverOptions) =>
      core.webhooks.redeliver({ endpointId: id, id: delivery, failed, since, until }),
    text: ({ redelivered }) => `Deliveries that are sent again: ${redelivered}.`,
    notFound: NO_ENDPOINT,
    optionNames: { endpointId: "ID", id: "DELIVERY" },
  });
  addDataCommand(webhooks, "delete <id>", {
    description: "delete an endpoint with its deliveries",
    call: (core, given: { id: string }) => core.webhooks.delete(given),
    text: formatEndpoint,
    ...ENDPOINT,
  });
}

const filterOptions = (note: string) => [
  new Option("--event <kind>", `only events of this kind; can be repeated (${note})`).argParser(listOf(EVENT_TYPES)),
  new Option(
    "--listing <listing>",
    `only events of forms on this listing, an id or external id; can be repeated (${note})`,
  ).argParser(listOf()),
];

/** Absent fields are absent in the result too. */
async function readFilters({ event: events, listing }: Filters, { findListing }: Finders) {
  const listingIds: string[] = [];
  for (const each of listing ?? []) listingIds.push(await findListing("--listing", each));
  return { ...(events && { events }), ...(listing && { listingIds }) };
}

const withAll = <Given extends Endpoint>({ events, listingIds, ...endpoint }: Given) => ({
  ...endpoint,
  events: events.join(", ") || "all",
  listingIds: listingIds.join(", ") || "all",
});

const formatEndpoint = (endpoint: Endpoint) => formatRecord(withAll(endpoint));

const withSecret = (record: object) => `${formatRecord(record)}\n\nSave the secret now: it is not shown again.`;

/** Returns the delivery after its first attempt, or as it is after TEST_TIMEOUT_MS. */
async function waitForAttempt(core: Caller, added: Delivery): Promise<Delivery> {
  const deadline = performance.now() + TEST_TIMEOUT_MS;
  let delivery = added;
  while (["waiting", "running"].includes(delivery.state) && performance.now() < deadline) {
    await sleep(TEST_POLL_MS);
    delivery = (await findDelivery(core, added)) ?? delivery;
  }
  return delivery;
}

/** Undefined if it was deleted. */
async function findDelivery({ webhooks }: Caller, { id, endpointId }: Delivery): Promise<Delivery | undefined> {
  let cursor: string | undefined;
  do {
    const { items, nextCursor } = await webhooks.deliveries({ endpointId, limit: MAX_LIMIT, cursor });
    const found = items.find((delivery) => delivery.id === id);
    if (found) return found;
    cursor = nextCursor ?? undefined;
  } while (cursor);
  return undefined;
}

/** Why a test was not delivered. */
function describeProblem({ state, lastError }: Delivery): string | undefined {
  if (state === "sent") return undefined;
  if (state === "waiting")
    return `No worker has sent it within ${TEST_TIMEOUT_MS / 1000} s: run \`guest-forms serve\` or \`guest-forms worker\`, and see \`guest-forms doctor\`.`;
  if (state === "running") return "It is still being sent: see `guest-forms webhooks deliveries`.";
  return `Not delivered: ${lastError}.`;
}
