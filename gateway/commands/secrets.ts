import type { Caller } from "../../server/caller.js";
import type { SecretsStatus, SecretUse } from "../../server/secrets/schema.js";
import { command, noun } from "../cli/command.js";
import { formatTable } from "../cli/print.js";
import { Progress } from "../cli/progress.js";

const names = { APP_SECRETS: "APP_SECRETS" };

export const secrets = noun("rotation of APP_SECRETS", {
  status: command({
    description: "count what needs each secret in APP_SECRETS, and until when",
    help: `
Prints an id per secret, never the secret. POSITION is its place in APP_SECRETS: 1 is the newest. ADDRESSES are those
encrypted with it, WEBHOOKS the endpoints whose secrets are. CREATES are those whose retries it recognizes and whose stay is not over; UNTIL is the end of the
last of these stays. Secrets that APP_SECRETS does not list are shown if creates need them.

\`guest-forms doctor\` warns if APP_SECRETS lacks a secret that was needed when this was last run.`,
    examples: ["guest-forms secrets status"],
    call: (core) => core.secrets.status({}),
    text: (status) => formatStatus(status, "run `guest-forms secrets reencrypt` to renew what it can"),
    names,
  }),
  reencrypt: command({
    description: "renew what older secrets encrypted and fingerprinted, with the newest one",
    help: `
Encrypts all addresses and secrets of webhook endpoints, and fingerprints all creates whose body is known, with the first secret in APP_SECRETS. Run it
when all processes use that secret as their first. They may keep running. Works in small batches: if it is interrupted,
or if processes still used an older secret, run it again.

The body of a create is unknown once its address was changed or erased. Retries of such a create need the old secret
until the stay is over. Then prints what \`secrets status\` prints.`,
    examples: ["guest-forms secrets reencrypt"],
    async consequences({ secrets }) {
      const { processes } = await secrets.outdated({});
      const others = processes.map((process) => `${process.secrets.join(", ")} (seen ${process.lastAt})`).join("; ");
      return {
        text: others
          ? `A process that runs, or did in the last minute, lacks the newest secret of APP_SECRETS: it has only ${others}. It cannot read what is renewed: its emails fail, and retried creates make second forms. Restart it with the new secret first.`
          : "Every process of this version that runs has the newest secret of APP_SECRETS. What older secrets made is renewed.",
        isDangerous: others !== "",
      };
    },
    call: async (core) => ({ ...(await reencryptAll(core)), ...(await core.secrets.status({})) }),
    text: ({ renewed, ...status }) =>
      `Renewed addresses: ${renewed.addresses}, creates: ${renewed.creates}, webhooks: ${renewed.webhooks}.\n\n${formatStatus(status, "these creates cannot be renewed")}`,
    names,
  }),
});

/** Renews everything, batch by batch. */
async function reencryptAll(core: Caller) {
  const renewed = { addresses: 0, creates: 0, webhooks: 0 };
  const progress = new Progress(null, "renewed");
  for (let after: string | undefined, isDone = false; !isDone; ) {
    const { next, addresses, creates, webhooks } = await core.secrets.reencrypt({ after });
    renewed.addresses += addresses;
    renewed.creates += creates;
    renewed.webhooks += webhooks;
    progress.add(addresses + creates + webhooks);
    after = next ?? undefined;
    isDone = next === null;
  }
  progress.end();
  return { renewed };
}

/** `ofCreates`: what to say about creates that need an older secret. */
function formatStatus({ secrets, unreadable, unreadableWebhooks }: SecretsStatus, ofCreates: string): string {
  const [, ...older] = secrets.filter(({ position }) => position !== null);
  const others = secrets.filter(({ position }) => position === null);
  return [
    formatTable(secrets, [["secret", ({ id }) => id], "position", "addresses", "webhooks", "creates", "until"], ""),
    "",
    ...older.map((use) => describeListed(use, ofCreates)),
    ...others.map(
      ({ id, creates, until }) => `${creates} creates until ${until} need secret ${id}, which APP_SECRETS lacks.`,
    ),
    ...describeUnreadable(unreadable, "addresses"),
    ...describeUnreadable(unreadableWebhooks, "webhook endpoints"),
  ]
    .join("\n")
    .trimEnd();
}

const describeUnreadable = (count: number, what: string): string[] =>
  count > 0
    ? [`${count} ${what} need a secret that APP_SECRETS lacks: add it, and run \`guest-forms secrets reencrypt\`.`]
    : [];

function describeListed({ id, addresses, webhooks, creates, until }: SecretUse, ofCreates: string): string {
  if (addresses + webhooks > 0) return `Secret ${id} is needed: run \`guest-forms secrets reencrypt\`.`;
  if (creates > 0) return `Secret ${id} is needed until ${until}: ${ofCreates}.`;
  return `Secret ${id} is no longer needed.`;
}
