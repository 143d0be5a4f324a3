/** How a status or state looks. Its text says the same, so that the color is not needed. */
const TONES: Record<string, string> = {
  SENT: "info",
  COMPLETED: "info",
  ACCEPTED: "good",
  VALIDATED: "good",
  REJECTED: "bad",
  INVALIDATED: "bad",
  waiting: "info",
  running: "info",
  retrying: "warn",
  failed: "bad",
  sent: "good",
  ok: "good",
  warning: "warn",
  enabled: "good",
  failing: "warn",
  disabled: "bad",
  revoked: "bad",
  active: "good",
};

/** A status, a state or a role. */
export const Badge = ({ of }: { of: string }) => (
  <span class={`badge ${TONES[of] ?? ""}`}>{of.replaceAll("_", " ")}</span>
);
