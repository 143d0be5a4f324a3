import { useState } from "preact/hooks";
import { core, type Inputs, type Outputs } from "../core.js";
import { Badge, formatTime, HERE, Time } from "./cells.js";
import { Copy } from "./copy.js";
import { Dialog, FormButton } from "./dialog.js";
import type { Field } from "./form.js";
import { type Columns, List } from "./list.js";
import { Section } from "./page.js";

type Key = Outputs["keys"]["list"]["items"][number];

const MODES = {
  READ_ONLY: "Read-only: sees forms and listings, changes nothing",
  READ_WRITE: "Read and write: also creates and changes forms",
};

const ISSUE_FIELDS: Field[] = [
  { name: "mode", label: "Mode", options: Object.entries(MODES), required: true },
  { name: "label", label: "Label", hint: "What or whom it is for, such as channel manager." },
  { name: "expiresAt", label: "Expires", type: "end-of-day", hint: `At the end of this day, ${HERE}. Empty: never.` },
];

function stateOf({ revokedAt, expiresAt, replacedBy }: Key): "revoked" | "expired" | "rotated" | "active" {
  if (revokedAt) return "revoked";
  if (expiresAt && Date.parse(expiresAt) <= Date.now()) return "expired";
  return replacedBy ? "rotated" : "active";
}

/** The API keys of a user. */
export function Keys({ user }: { user: Outputs["users"]["get"] }) {
  const [issued, setIssued] = useState<{ key: string; note: string }>();
  const userId = user.id;
  const columns: Columns<Key> = {
    Key: ({ prefix, label }) => (
      <>
        <code>{prefix}…</code> {label}
      </>
    ),
    Mode: ({ mode }) => MODES[mode].split(":")[0],
    State: (key) => <Badge text={stateOf(key)} />,
    "Last used": ({ lastUsedAt }) => <Time at={lastUsedAt} none="never" />,
    Ends: ({ revokedAt, expiresAt }) => <Time at={revokedAt ?? expiresAt} none="never" />,
    Created: ({ createdAt }) => <Time at={createdAt} />,
    Actions: (key) => (
      <div class="hstack flex-wrap gap-2">
        {stateOf(key) === "active" && (
          <FormButton
            label="Rotate"
            about={key.prefix}
            title={`Rotate ${key.prefix}…`}
            class="btn-sm"
            submit="Issue the new key"
            send={() => core.keys.rotate.mutate({ id: key.id })}
            onDone={({ key: secret, replaces }) =>
              setIssued({ key: secret, note: `The old key ends ${formatTime(replaces.expiresAt)}.` })
            }
          >
            <p>The new key has the same mode, label and expiry. The old one works for another 24 hours.</p>
          </FormButton>
        )}
        {["active", "rotated"].includes(stateOf(key)) && (
          <FormButton
            label="Revoke"
            about={key.prefix}
            title={`Revoke ${key.prefix}…`}
            class="btn-sm"
            isDangerous
            send={() => core.keys.revoke.mutate({ id: key.id })}
            done={({ prefix }) => `${prefix}… was revoked.`}
          >
            <p>
              {key.label ?? "The key has no label"}, last used: <Time at={key.lastUsedAt} none="never" />. Requests with
              this key are rejected at once. This cannot be undone.
            </p>
          </FormButton>
        )}
      </div>
    ),
  };
  const issue = (
    <FormButton
      label="Issue key"
      title={`Issue a key for ${user.email}`}
      class="btn-primary"
      fields={ISSUE_FIELDS}
      send={(values) => core.keys.issue.mutate({ ...values, userId } as Inputs["keys"]["issue"])}
      onDone={({ key, expiresAt }) =>
        setIssued({ key, note: expiresAt ? `It works until ${formatTime(expiresAt)}.` : "It does not expire." })
      }
    />
  );
  return (
    <Section title="API keys" actions={issue}>
      <List
        caption="API keys, oldest first"
        listKey={["keys", userId]}
        read={(page) => core.keys.list.query({ userId, ...page })}
        cursorName="keys"
        columns={columns}
        keyOf={({ id }) => id}
        empty="This user has no keys."
      />
      {issued && (
        <Dialog title="New key">
          <div class="vstack gap-3">
            <p>
              <strong>Copy it now: it is never shown again.</strong> {issued.note} If it is lost, revoke it and issue
              another.
            </p>
            <Copy text={issued.key} />
            <button type="button" class="btn" onClick={() => setIssued(undefined)}>
              I have saved it
            </button>
          </div>
        </Dialog>
      )}
    </Section>
  );
}
