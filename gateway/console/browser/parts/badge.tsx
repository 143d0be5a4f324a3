/** How a status or state looks. Its text says the same, so that the color is not needed. */
const COLORS = {
  info: ["SENT", "COMPLETED", "waiting", "running"],
  success: ["ACCEPTED", "VALIDATED", "sent", "ok", "enabled", "active"],
  warning: ["retrying", "expired", "warning", "failing"],
  danger: ["REJECTED", "INVALIDATED", "failed", "disabled", "revoked"],
};

const colorOf = (text: string) => Object.entries(COLORS).find(([, texts]) => texts.includes(text))?.[0] ?? "secondary";

/** A status, a state or a role. */
export const Badge = ({ text }: { text: string }) => (
  <span class={`badge bg-${colorOf(text)}-subtle text-${colorOf(text)}-emphasis`}>{text.replaceAll("_", " ")}</span>
);
