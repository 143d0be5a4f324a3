/** The tables of the outbox. */
export type OutboxTable = "emails" | "webhook_deliveries";

/** What the rows of a table are called in names of statements. */
export const nounOf = (table: OutboxTable) => (table === "emails" ? "emails" : "deliveries");

/** A change of a row's state, and the prepared statement that makes it, which a file in `server/` has. */
interface Move {
  table: OutboxTable;
  /** Null: the row is inserted. */
  from: string | null;
  /** Null: the row is deleted. */
  to: string | null;
  statement: string;
  file: string;
}

/** From, to, statement, file, why. `*` stands for `nounOf` the table. */
type Line = [from: string, to: string, statement: string, file: string, why: string];

// The life of a row. In `waiting` (no attempt yet) and `retrying` it waits for an attempt and has `next_attempt_at`; in `running` a
// worker is sending it and writes `heartbeat_at`; in every other state it has ended and has `ended_at`. In test databases a trigger
// rejects every move of the service that is not in this table.

const BOTH: Line[] = [
  ["waiting retrying", "running", "claim-*", "claim.ts", "a worker begins an attempt"],
  ["running", "retrying", "record-*", "record.ts", "the attempt has failed"],
  ["running", "failed", "record-*", "record.ts", "the last attempt has failed, or another would fail the same way"],
  ["running", "sent", "record-*", "record.ts", "it was accepted"],
  ["waiting retrying failed expired", "sent", "record-*", "record.ts", "the same, after another worker had taken over"],
  ["running", "waiting", "release-*", "heartbeats.ts", "its worker became stale in the first attempt"],
  ["running", "retrying", "release-*", "heartbeats.ts", "its worker became stale in a later attempt"],
  ["running", "failed", "release-*", "heartbeats.ts", "its workers became stale too often"],
];

/** Only what has ended is deleted with its form. */
const deletedWithForm = (states: string): Line[] =>
  ["delete-old-forms", "delete-old-undated-forms"].map((statement) => [
    states,
    "deleted",
    statement,
    "../forms/retention.ts",
    "its form is past its retention",
  ]);

const EMAILS: Line[] = [
  ["inserted", "waiting", "insert-form", "../forms/queries.ts", "a form is created with an address"],
  ["inserted", "waiting", "enqueue-invitation", "../emails/store.ts", "an operator sends the invitation again"],
  ["inserted", "waiting", "record-deliveries", "../webhooks/record.ts", "an endpoint is disabled"],
  ["waiting retrying failed expired", "waiting", "retry-email", "../emails/store.ts", "an operator retries it"],
  ["failed", "waiting", "retry-failed-emails", "../emails/store.ts", "an operator retries all that failed"],
  ["running", "expired", "record-emails", "record.ts", "nobody needs it anymore"],
  ["running", "deleted", "record-emails", "record.ts", "it has no recipient anymore"],
  ["waiting retrying failed bounced", "deleted", "cancel-emails", "enqueue.ts", "the address is erased"],
  [
    "waiting retrying failed",
    "expired",
    "expire-emails",
    "../emails/expiry.ts",
    "nobody needs it, or it waited too long",
  ],
  ["bounced", "dismissed", "expire-emails", "../emails/expiry.ts", "nobody needs it"],
  ["failed bounced", "dismissed", "dismiss-email", "../emails/follow-up.ts", "an operator has dealt with it"],
  ["failed bounced", "dismissed", "dismiss-emails", "../emails/follow-up.ts", "an operator has dealt with all"],
  ["dismissed", "sent", "record-emails", "record.ts", "it was accepted, after another worker had taken over"],
  ["sent", "bounced", "mark-bounced", "../emails/follow-up.ts", "it came back"],
  ["inserted", "waiting", "replace-invitation", "enqueue.ts", "an update changes the address"],
  ["waiting retrying", "deleted", "replace-invitation", "enqueue.ts", "the same: the new one goes to the new address"],
  ["failed", "expired", "replace-invitation", "enqueue.ts", "the same"],
  ["waiting retrying failed", "expired", "end-invitations", "enqueue.ts", "the form is cancelled"],
  [
    "failed bounced sent expired dismissed",
    "deleted",
    "delete-old-emails",
    "../emails/retention.ts",
    "it is past its retention",
  ],
  ...deletedWithForm("failed bounced sent expired dismissed"),
];

const DELIVERIES: Line[] = [
  ["inserted", "waiting", "record-event", "events.ts", "a form is changed"],
  ["inserted", "waiting", "test-endpoint", "../webhooks/deliveries.ts", "an endpoint is tested"],
  [
    "retrying failed sent expired out_of_scope",
    "waiting",
    "redeliver",
    "../webhooks/deliveries.ts",
    "it is sent again",
  ],
  ["running", "out_of_scope", "record-*", "record.ts", "the endpoint's owner may not see the form anymore"],
  ["out_of_scope", "sent", "record-*", "record.ts", "it was accepted, after another worker had taken over"],
  ["waiting retrying", "expired", "expire-deliveries", "../webhooks/expiry.ts", "it has waited too long"],
  ["waiting retrying", "expired", "expire-backlog", "../webhooks/expiry.ts", "too many newer ones wait"],
  ["waiting retrying", "failed", "end-backlog", "../webhooks/expiry.ts", "the endpoint is disabled"],
  ["waiting retrying", "deleted", "delete-orphans", "../webhooks/expiry.ts", "the endpoint is deleted"],
  [
    "waiting running retrying failed sent expired out_of_scope",
    "deleted",
    "delete-deliveries",
    "../webhooks/endpoints.ts",
    "the same",
  ],
  ["sent", "deleted", "delete-old-sent-deliveries", "../webhooks/retention.ts", "it is past its retention"],
  ["failed expired out_of_scope", "deleted", "delete-old-unsent-deliveries", "../webhooks/retention.ts", "the same"],
  ...deletedWithForm("failed sent expired out_of_scope"),
];

const toMoves = (table: OutboxTable, lines: Line[]): Move[] =>
  lines.flatMap(([from, to, statement, file]) =>
    from.split(" ").map((state) => ({
      table,
      from: state === "inserted" ? null : state,
      to: to === "deleted" ? null : to,
      statement: statement.replace("*", nounOf(table)),
      file,
    })),
  );

export const MOVES: readonly Move[] = [
  ...toMoves("emails", [...BOTH, ...EMAILS]),
  ...toMoves("webhook_deliveries", [...BOTH, ...DELIVERIES]),
];
