import { once } from "node:events";
import { userInfo } from "node:os";
import { PassThrough } from "node:stream";
import { describe, expect, onTestFinished, test } from "vitest";
import { announceSecrets } from "../../server/secrets/uses.js";
import { openTestCore } from "../support/core.js";
import { makeListing, openTestServices } from "../support/factories.js";
import { commandsWith } from "../support/run-in-process.js";
import { uniqueStay } from "../support/stays.js";

// What dangerous commands say before they change anything, and who the audit trail says has run a command.

const { services, owner, operator, makeUser, setRole } = await openTestCore();
const env = { DATABASE_URL: services.db.url };
const { text, json, failure } = commandsWith(env);

const GIVE_YES = /Nothing was changed: give --yes to do it\.$/;

interface Case {
  command: string[];
  /** What it says that it will do. */
  says: RegExp;
  /** Something that it changes. */
  read: () => Promise<unknown>;
}

const newForm = () => owner.forms.create(uniqueStay(owner.listingId, { guestEmail: "guest@example.com" }));

async function prepareStatus(status: string, says: RegExp): Promise<Case> {
  const { id } = await newForm();
  const read = async () => (await operator.forms.getAny({ id })).status;
  return { command: ["forms", "set-status", id, status], says, read };
}

const CASES: [string, () => Promise<Case>][] = [
  [
    "forms set-status of a status out of order",
    () =>
      prepareStatus("CHECKED_OUT", /^The form is SENT\. CHECKED_OUT is out of order, and is audited as a correction/),
  ],
  [
    "forms set-status CANCELLED",
    () => prepareStatus("CANCELLED", /^The form is SENT\. It is cancelled for good: .* removed/),
  ],
  [
    "members remove of the last owner",
    async () => {
      const { id: listingId } = await makeListing(services, owner.userId);
      await setRole(listingId, (await makeUser()).id, "WRITER");
      return {
        command: ["members", "remove", "--listing", listingId, "--user", owner.userId],
        says: new RegExp(`^The user is the last owner of listing ${listingId}`),
        read: async () => (await operator.members.list({ listingId })).items.length,
      };
    },
  ],
  [
    "users erase",
    async () => {
      const { id } = await makeUser();
      const { id: listingId } = await makeListing(services, id);
      await operator.keys.issue({ userId: id, mode: "READ_ONLY" });
      return {
        command: ["users", "erase", id],
        says: new RegExp(
          `^User ${id} is erased for good: .* revoked: 1, .* leaves: 1\\. .* no other owner: ${listingId}\\.`,
        ),
        read: async () => (await operator.users.get({ id })).email,
      };
    },
  ],
  [
    "people erase",
    async () => {
      const { id } = await newForm();
      return {
        command: ["people", "erase", "guest@example.com"],
        says: /^The address is erased for good from \d+ forms?, and unsent emails to it are deleted/,
        read: async () => (await operator.forms.getAny({ id })).hasGuestEmail,
      };
    },
  ],
  [
    "webhooks delete",
    async () => {
      const { id } = await operator.webhooks.create({ url: "https://receiver.example.com/" });
      return {
        command: ["webhooks", "delete", id],
        says: /^The endpoint https:\/\/receiver\.example\.com\/ of the operator is deleted for good, .*`guest-forms webhooks disable` keeps/,
        read: async () => (await operator.webhooks.list({})).items.some((endpoint) => endpoint.id === id),
      };
    },
  ],
];

describe.each(CASES)("%s", (_, prepare) => {
  test("says what it will do with --dry-run, needs --yes where nobody can be asked, and changes something only then", async () => {
    const { command, says, read } = await prepare();
    const before = await read();
    expect(await json(...command, "--dry-run", "--yes")).toEqual({
      dryRun: true,
      consequences: expect.stringMatching(says),
    });
    expect(await text(...command, "--dry-run")).toMatch(/\n\nThis was a dry run: nothing was changed\.\n$/);
    const [code, message] = await failure(...command);
    expect([code, message]).toEqual([2, expect.stringMatching(GIVE_YES)]);
    expect(message).toMatch(says);
    expect(await read()).toEqual(before);
    await text(...command, "--yes");
    expect(await read()).not.toEqual(before);
  });
});

test("what is harmless needs no --yes: the next status, the same status, and a member who is not the last owner", async () => {
  const { id } = await newForm();
  expect(await json("forms", "set-status", id, "COMPLETED")).toMatchObject({ status: "COMPLETED" });
  expect(await json("forms", "set-status", id, "COMPLETED")).toMatchObject({ status: "COMPLETED" });
  const { id: listingId } = await makeListing(services, owner.userId);
  const { id: userId } = await makeUser();
  await setRole(listingId, userId, "OWNER");
  expect(await json("members", "remove", "--listing", listingId, "--user", userId)).toMatchObject({ role: "owner" });
});

test("secrets reencrypt needs --yes while a process runs that lacks the newest secret, and no longer once it has stopped", async () => {
  const [OLD, NEW] = ["old", "new"].map((name) => `${name}-secret-of-at-least-32-characters-for-tests`);
  const old = await openTestServices({ APP_SECRETS: `${OLD}` });
  const both = { DATABASE_URL: old.db.url, APP_SECRETS: `${NEW},${OLD}` };
  const running = announceSecrets(old);
  onTestFinished(() => running.stop());
  const listed = await openTestServices({ ...both, APP_SECRETS: `${OLD},${NEW}` });
  const restarted = announceSecrets(await openTestServices(both));
  onTestFinished(() => restarted.stop());
  const commands = commandsWith(both);
  const lacks = new RegExp(
    `^A process that runs, .* lacks the newest secret of APP_SECRETS: it has only ${listed.keyring.ids[0]} `,
  );
  await expect.poll(() => commands.failure("secrets", "reencrypt")).toEqual([2, expect.stringMatching(lacks)]);
  await running.stop();
  expect(await commands.json("secrets", "reencrypt", "--dry-run")).toMatchObject({
    consequences: expect.stringMatching(/^Every process of this version that runs has the newest secret/),
  });
  expect(await commands.json("secrets", "reencrypt")).toMatchObject({ renewed: { addresses: 0 } });
});

describe("forms set-status changes the status only from the one that it has shown", () => {
  /** In a terminal: runs `meanwhile` while the operator reads the question, then answers yes. */
  function answerYes(meanwhile: () => Promise<unknown>) {
    const terminal = () => Object.assign(new PassThrough(), { isTTY: true });
    const [stdin, stderr] = [terminal(), terminal()];
    for (const [name, value] of Object.entries({ stdin, stderr })) {
      const property = Object.getOwnPropertyDescriptor(process, name) ?? {};
      Object.defineProperty(process, name, { configurable: true, value });
      onTestFinished(() => void Object.defineProperty(process, name, property));
    }
    void once(stderr, "data").then(async () => {
      await meanwhile();
      stdin.write("y\n");
    });
  }

  test("a change meanwhile is an error, as with --from", async () => {
    const { id } = await newForm();
    answerYes(() => operator.forms.setStatus({ id, status: "ACCEPTED" }));
    expect(await failure("forms", "set-status", id, "CANCELLED")).toEqual([2, "--from: the form is ACCEPTED"]);
    expect(await operator.forms.getAny({ id })).toMatchObject({ status: "ACCEPTED" });
  });

  test("an unknown status, which is shown as UNKNOWN, is changed", async () => {
    const { id } = await newForm();
    await operator.forms.setStatus({ id, status: "ON_HOLD", force: true });
    answerYes(async () => {});
    expect(await json("forms", "set-status", id, "SENT")).toMatchObject({ status: "SENT" });
  });
});

describe("--dry-run of what would be rejected exits with the error of the real run, and changes nothing", () => {
  const setStatus = async (from: string, ...args: string[]) => {
    const { id } = await newForm();
    await operator.forms.setStatus({ id, status: from });
    return ["forms", "set-status", id, ...args];
  };

  test.each<[string, () => Promise<string[]>, RegExp]>([
    ["an unknown status", () => setStatus("SENT", "ON_HOLD"), /^STATUS: must be one of SENT, /],
    ["a malformed status", () => setStatus("SENT", "on hold", "--force"), /^STATUS: must be one of SENT, /],
    ["a cancelled form", () => setStatus("CANCELLED", "SENT"), /the form is cancelled: create a new one/],
    ["another --from", () => setStatus("SENT", "ACCEPTED", "--from", "COMPLETED"), /^--from: the form is SENT$/],
    [
      "the removal of a user who is no member",
      async () => ["members", "remove", "--listing", owner.listingId, "--user", (await makeUser()).id],
      /^This user has no role on this listing\.$/,
    ],
  ])("%s", async (_, prepare, error) => {
    const command = await prepare();
    const [code, message] = await failure(...command, "--dry-run");
    expect(message).toMatch(error);
    expect(await failure(...command, "--yes")).toEqual([code, message]);
  });

  test("an allowed change of a cancelled form or from --from is a dry run", async () => {
    const NOTHING = { dryRun: true, consequences: expect.stringMatching(/^The form is /) };
    expect(await json(...(await setStatus("CANCELLED", "CANCELLED")), "--dry-run")).toEqual(NOTHING);
    const command = await setStatus("SENT", "COMPLETED", "--from", "SENT");
    expect(await json(...command, "--dry-run")).toEqual(NOTHING);
    expect(await operator.forms.getAny({ id: command[2] ?? "" })).toMatchObject({ status: "SENT" });
  });
});

describe("the audit trail has the name of who ran a command", () => {
  const nameIn = async (id: string) => (await operator.audit.trail({ subjectId: id }))[0]?.actorName;

  test.each([
    ["GUEST_FORMS_OPERATOR", { GUEST_FORMS_OPERATOR: "Ada Night", SUDO_USER: "eve" }, "Ada Night"],
    ["the user who called sudo", { SUDO_USER: "eve" }, "eve"],
    ["the user of the system", { SUDO_USER: "" }, userInfo().username],
  ])("%s", async (_, variables, name) => {
    const { id } = await newForm();
    await commandsWith({ ...env, ...variables }).text("forms", "set-party", id, "--pets", "none", "--vehicles", "1");
    expect(await nameIn(id)).toBe(name);
  });

  test("an entry about a key says which", async () => {
    const { id: userId } = await makeUser();
    const { prefix, id } = await operator.keys.issue({ userId, mode: "READ_ONLY" });
    await operator.keys.revoke({ id });
    expect(await operator.audit.trail({ subjectId: userId })).toMatchObject([
      { action: "key.revoked", subjectId: id, keyPrefix: prefix },
      { action: "key.issued", subjectId: id, keyPrefix: prefix },
      { action: "user.created", keyPrefix: null },
    ]);
  });
});
