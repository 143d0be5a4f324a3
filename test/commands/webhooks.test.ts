import { createServer } from "node:http";
import { beforeAll, describe, expect, test } from "vitest";
import { afterFile } from "../support/after-file.js";
import { asOperator, makeForm, makeListing, makeUser, openTestServices } from "../support/factories.js";
import { commandEnv, startTestWorker } from "../support/mail-server.js";
import { listenLocally } from "../support/network.js";
import { runCli } from "../support/processes.js";
import { UUID } from "../support/public-fields.js";
import { commandsWith } from "../support/run-in-process.js";

const UNKNOWN_ID = "00000000-0000-4000-8000-000000000000";
const A_UUID = expect.stringMatching(UUID);
const AN_INSTANT = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
const A_SECRET = expect.stringMatching(/^whsec_[\w+/]{43}=$/);
const NO_ENDPOINT = "There is no webhook endpoint with this id.";

const services = await openTestServices({ WEBHOOK_ALLOW_PRIVATE_ADDRESSES: "true" });
const operator = asOperator(services);
const env = commandEnv(services, { WEBHOOK_ALLOW_PRIVATE_ADDRESSES: "true" });
const { text, json, failure } = commandsWith(env);

const ana = await makeUser(services, { email: "ana@example.com" });
const loft = await makeListing(services, ana.id, { title: "Loft" });

/** The status that the receiver answers with. */
let status = 200;
const receiver = createServer((_request, response) => void response.writeHead(status).end("thank you"));
const url = `http://127.0.0.1:${await listenLocally(receiver)}/hooks`;
afterFile(() => void receiver.close());

const create = async (...options: string[]) => json("webhooks", "create", "--url", url, ...options);

describe("webhooks", () => {
  test("create prints the secret, which no other command prints, and list and show print the endpoint", async () => {
    const kinds = ["--event", "form.created", "--event", "form.moved"];
    const { secret, ...endpoint } = await create("--user", ana.email, ...kinds, "--listing", loft.id);
    expect(secret).toEqual(A_SECRET);
    expect(endpoint).toEqual({
      ...{ id: A_UUID, userId: ana.id, url, events: ["form.created", "form.moved"], listingIds: [loft.id] },
      ...{ enabled: true, disabledAt: null, disabledReason: null, failingSince: null, createdAt: AN_INSTANT },
    });
    const { secret: _, ...other } = await create();
    expect(other).toMatchObject({ userId: null, events: [], listingIds: [] });
    expect(await json("webhooks", "list")).toEqual({ items: [endpoint, other], nextCursor: null });
    expect(await json("webhooks", "list", "--user", ana.email)).toEqual({ items: [endpoint], nextCursor: null });
    expect(await json("webhooks", "show", endpoint.id)).toEqual(endpoint);
    expect(await text("webhooks", "list")).toMatch(
      new RegExp(
        `^ID +USER ID +URL +EVENTS +ENABLED .*\n${endpoint.id} .* form.created, form.moved +true .*\n.* - .* all`,
      ),
    );
    expect(await text("webhooks", "show", other.id)).toMatch(/^events: +all\nlistingIds: +all$/m);
    expect(await text("webhooks", "create", "--url", url)).toMatch(
      /^secret: +whsec_\S+$[\s\S]*\n\nSave the secret now: it is not shown again\.\n$/m,
    );
  });

  test("update changes only what is given, and disable, enable, rotate-secret and delete print what they did", async () => {
    const { id, secret, ...endpoint } = await create("--event", "form.created");
    const filtered = await json("webhooks", "update", id, "--listing", loft.id, "--event", "form.updated");
    expect(filtered).toEqual({ id, ...endpoint, events: ["form.updated"], listingIds: [loft.id] });
    const all = await json("webhooks", "update", id, "--all-events", "--all-listings", "--url", `${url}/2`);
    expect(all).toEqual({ id, ...endpoint, events: [], url: `${url}/2` });
    expect(await json("webhooks", "disable", id)).toMatchObject({ enabled: false, disabledReason: "manual" });
    expect(await failure("webhooks", "test", id)).toEqual([2, "ID: the endpoint is disabled: enable it first"]);
    expect(await json("webhooks", "enable", id)).toEqual(all);
    const rotated = await json("webhooks", "rotate-secret", id);
    expect(rotated).toEqual({ id, secret: A_SECRET, previousSecretUntil: AN_INSTANT });
    expect(rotated.secret).not.toBe(secret);
    expect(await text("webhooks", "rotate-secret", id)).toMatch(/\n\nSave the secret now: it is not shown again\.\n$/);
    expect(await json("webhooks", "delete", id, "--yes")).toEqual(all);
    expect(await failure("webhooks", "show", id)).toEqual([1, NO_ENDPOINT]);
  });

  test.each<[string, number, string | RegExp]>([
    ["create", 2, /required option '--url <url>' not specified/],
    ["create --url ftp://example.com", 2, "--url: must be an https URL"],
    ["create --url https://a.example --event form.deleted", 2, /--event.*Allowed choices are form\.created, /],
    ["create --url https://a.example --listing x", 2, "--listing: no listing has this id or external id"],
    ["create --url https://a.example --user x", 2, "--user: no user has this id, external id or email address"],
    [`update ${UNKNOWN_ID}`, 2, "Give at least one option to change."],
    [
      `update ${UNKNOWN_ID} --all-events --event form.moved`,
      2,
      /'--all-events' cannot be used with .*'--event <kind>'/,
    ],
    [`redeliver ${UNKNOWN_ID}`, 2, "Give DELIVERY, --failed or --since."],
    [`redeliver ${UNKNOWN_ID} --since today`, 2, /^--since: must be an ISO 8601 instant/],
    ["show x", 1, NO_ENDPOINT],
    ["deliveries --form x", 1, "There is no form with this id, external id, public id or link."],
    ...["show", "enable", "disable", "rotate-secret", "test", "deliveries", "delete"].map(
      (command): [string, number, string] => [`${command} ${UNKNOWN_ID}`, 1, NO_ENDPOINT],
    ),
    [`deliveries ${UNKNOWN_ID} --state lost`, 2, /--state.*Allowed choices are waiting, /],
  ])("%s exits with %d and one line: %s", async (command, code, message) => {
    const line = typeof message === "string" ? message : expect.stringMatching(message);
    expect(await failure("webhooks", ...command.split(" "))).toEqual([code, line]);
  });
});

describe("deliveries", () => {
  let endpointId: string;
  beforeAll(async () => {
    for (const { id } of (await operator.webhooks.list({})).items) await operator.webhooks.delete({ id });
    endpointId = (await create()).id;
  });
  const deliveries = async (...options: string[]) =>
    (await json("webhooks", "deliveries", endpointId, ...options)).items;

  test("webhooks test prints the outcome of the first attempt, and the exit code is 1 if it failed", async () => {
    await startTestWorker(services);
    expect(await json("webhooks", "test", endpointId)).toMatchObject({
      ...{ id: A_UUID, endpointId, event: "webhook.test", formId: null, state: "sent", attempts: 1 },
      ...{ responseStatus: 200, responseBody: null, durationMs: expect.any(Number), lastError: null },
    });
    expect(await text("webhooks", "test", endpointId)).toMatch(/^Delivered: status 200 after \d+ ms\.\n$/);
    status = 500;
    const failed = await runCli(["webhooks", "test", endpointId, "--json"], { env });
    status = 200;
    expect(failed).toMatchObject({ code: 1, stderr: "error: Not delivered: answered 500.\n" });
    expect(JSON.parse(failed.stdout)).toMatchObject({
      ...{ state: "retrying", attempts: 1, responseStatus: 500, responseBody: "thank you" },
    });
  });

  test("without a worker, webhooks test says so after 15 s", async () => {
    const { id } = await operator.webhooks.create({ url });
    const { code, stdout, stderr } = await runCli(["webhooks", "test", id], { env });
    await operator.webhooks.delete({ id });
    expect(code).toBe(1);
    expect(stdout).toMatch(/^state: +waiting$/m);
    expect(stderr).toMatch(
      /^error: No worker has sent it within 15 s: run `guest-forms serve` or `guest-forms worker`/,
    );
  });

  test("deliveries are listed by state, one, failed ones or those of a time range are sent again, and trace prints those of a request", async () => {
    const form = await makeForm(services, ana.id, loft.id);
    const [waiting] = await deliveries("--state", "waiting");
    expect(waiting).toMatchObject({
      event: "form.created",
      formId: form.id,
      state: "waiting",
      nextAttemptAt: AN_INSTANT,
    });
    expect(await text("webhooks", "deliveries", endpointId)).toMatch(
      /^ID +CREATED AT +EVENT +FORM ID +STATE +ATTEMPTS +RESPONSE STATUS +DURATION MS +NEXT ATTEMPT AT +LAST ERROR\n/,
    );
    const noneFailed = "There are no deliveries of this endpoint in state failed.\n";
    expect(await text("webhooks", "deliveries", endpointId, "--state", "failed")).toBe(noneFailed);
    const ofAll = ["webhooks", "deliveries", "--state"];
    expect(await json(...ofAll, "waiting")).toEqual({ items: [waiting], nextCursor: null });
    expect(await text(...ofAll, "waiting")).toMatch(
      new RegExp(`^ID +ENDPOINT ID +CREATED AT .*\n${waiting.id} +${endpointId} `),
    );
    expect(await json("webhooks", "deliveries", "--form", form.id)).toEqual({ items: [waiting], nextCursor: null });
    expect(await failure("webhooks", "deliveries", endpointId, "--form", form.id)).toEqual([
      2,
      "Give either ID or --form.",
    ]);
    expect(await text(...ofAll, "failed")).toBe("There are no deliveries in state failed.\n");
    for (const args of [
      ["webhooks", "deliveries"],
      [...ofAll, "sent"],
    ])
      expect(await failure(...args)).toEqual([2, "Give ID, --form, or --state with a state other than sent."]);
    expect(await failure("webhooks", "redeliver", endpointId, waiting.id)).toEqual([
      2,
      "DELIVERY: the endpoint has no delivery with this id that has ended or is retried",
    ]);
    const [{ correlationId } = { correlationId: "" }] = await operator.audit.trail({ subjectId: form.id });
    const { id, event, formId, state, attempts, responseStatus, nextAttemptAt } = waiting;
    expect((await json("trace", correlationId)).deliveries).toEqual([
      { id, endpointId, event, formId, state, attempts, responseStatus, nextAttemptAt },
    ]);
    expect(await text("trace", correlationId)).toMatch(
      new RegExp(`^AT +ACTION .*\n.* form.created .*\n\nID +ENDPOINT ID +EVENT .*\n${id} +${endpointId} +form.created`),
    );

    const end =
      "UPDATE webhook_deliveries SET state = $2, next_attempt_at = NULL, ended_at = now() WHERE event_id = $1";
    const redeliver = async (...options: string[]) =>
      (await json("webhooks", "redeliver", endpointId, ...options)).redelivered;
    await services.db.pool.query(end, [id, "sent"]);
    // The failed test of before is retried.
    expect([await redeliver("--failed"), await redeliver("--failed")]).toEqual([1, 0]);
    expect(await redeliver("--since", "2999-01-01T00:00:00Z")).toBe(0);
    expect(await redeliver(id)).toBe(1);
    await services.db.pool.query(end, [id, "failed"]);
    const since = ["--since", waiting.createdAt];
    expect(await redeliver(...since, "--until", waiting.createdAt)).toBe(0);
    expect(await text("webhooks", "redeliver", endpointId, ...since)).toBe("Deliveries that are sent again: 1.\n");
    await services.db.pool.query(end, [id, "failed"]);
    expect(await redeliver("--failed", ...since)).toBe(1);
  });
});
