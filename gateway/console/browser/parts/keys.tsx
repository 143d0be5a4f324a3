import { useLocation } from "preact-iso/router";
import { core, type Inputs, type Outputs } from "../core.js";
import { Action } from "./action.js";
import { Badge } from "./badge.js";
import type { Field } from "./form.js";
import { type Columns, List } from "./list.js";
import { Section } from "./page.js";
import { useSecret } from "./secret.js";
import { Ago, formatTime, HERE, Time } from "./time.js";

type Key = Outputs["keys"]["list"]["items"][number];

const MODES = { READ_ONLY: "Read-only", READ_WRITE: "Read and write" } as const;

const ISSUE_FIELDS: Field[] = [
  {
    name: "mode",
    label: "Mode",
    type: "choice",
    options: [
      ["READ_ONLY", `${MODES.READ_ONLY}: sees forms and listings, changes nothing`],
      ["READ_WRITE", `${MODES.READ_WRITE}: also creates and changes forms`],
    ],
    required: true,
  },
  { name: "label", label: "Label", hint: "What or whom it is for, such as channel manager." },
  {
    name: "expiresAt",
    label: "Expires",
    type: "end-of-day",
    hint: `At the end of this day, ${HERE}. Empty: never.`,
  },
];

const GRACES = { 0: "At once", 3600: "In an hour", 86400: "In 24 hours", 604800: "In 7 days", 2592000: "In 30 days" };

const GRACE_FIELDS: Field[] = [
  { name: "graceSeconds", label: "The old key ends", type: "choice", options: Object.entries(GRACES), value: 86400 },
];

function stateOf({ revokedAt, expiresAt, replacedBy }: Key): "revoked" | "expired" | "rotated" | "active" {
  if (revokedAt) return "revoked";
  if (expiresAt && Date.parse(expiresAt) <= Date.now()) return "expired";
  return replacedBy ? "rotated" : "active";
}

const isUsable = (key: Key) => ["active", "rotated"].includes(stateOf(key));

/** The API keys of a user. */
export function Keys({ userId }: { userId: string }) {
  const { show, dialog } = useSecret();
  const { query } = useLocation();
  const columns: Columns<Key> = {
    Key: ({ id, prefix, label }) => (
      <>
        <code>{prefix}…</code> {id === query.key && <Badge of="found" />}
        {label && <small>{label}</small>}
      </>
    ),
    Mode: ({ mode }) => MODES[mode],
    State: (key) => <Badge of={stateOf(key)} />,
    "Last used": ({ lastUsedAt }) => <Ago at={lastUsedAt} none="never" />,
    Expires: ({ revokedAt, expiresAt }) => <Time at={revokedAt ?? expiresAt} none="never" />,
    Created: ({ createdAt }) => <Time at={createdAt} />,
    Actions: (key) =>
      isUsable(key) && (
        <div class="actions">
          {stateOf(key) === "active" && (
            <Action
              label="Rotate"
              of={key.prefix}
              title={`Rotate ${key.prefix}…`}
              class="small"
              submit="Issue the new key"
              fields={GRACE_FIELDS}
              send={({ graceSeconds }) => core.keys.rotate.mutate({ id: key.id, graceSeconds: Number(graceSeconds) })}
              onDone={({ key: secret, replaces }) =>
                show({
                  title: "New key",
                  secret,
                  note: `The old key ${key.prefix}… ends ${formatTime(replaces.expiresAt)}.`,
                })
              }
              note="The new key has the same mode, label and expiry."
            />
          )}
          <Action
            label="Revoke"
            of={key.prefix}
            title={`Revoke ${key.prefix}…`}
            class="small danger"
            isDangerous
            send={() => core.keys.revoke.mutate({ id: key.id })}
            done={({ prefix }) => `${prefix}… was revoked.`}
            note={
              <>
                {key.label ?? "The key has no label"}, last used: <Ago at={key.lastUsedAt} none="never" />. Requests
                with this key are rejected at once. This cannot be undone.
              </>
            }
          />
        </div>
      ),
  };
  return (
    <Section
      title="API keys"
      actions={
        <Action
          label="Issue key"
          class="primary"
          fields={ISSUE_FIELDS}
          send={(values) => core.keys.issue.mutate({ ...values, userId } as Inputs["keys"]["issue"])}
          onDone={({ key: secret, mode, expiresAt }) =>
            show({
              title: `${MODES[mode]} key`,
              secret,
              note: expiresAt ? `It works until ${formatTime(expiresAt)}.` : "It does not expire.",
            })
          }
        />
      }
    >
      <List
        caption="API keys, oldest first"
        listKey={["keys", userId]}
        read={(page) => core.keys.list.query({ userId, ...page })}
        cursorName="keys"
        columns={columns}
        keyOf={({ id }) => id}
        empty="This user has no keys."
      />
      {dialog}
    </Section>
  );
}
