/** How a status or state looks. Its text says the same, so that the color is not needed. */
const TONES = {
  info: ["SENT", "COMPLETED", "waiting", "running"],
  success: ["ACCEPTED", "VALIDATED", "sent", "ok", "enabled", "active"],
  warning: ["retrying", "warning", "failing"],
  danger: ["REJECTED", "INVALIDATED", "failed", "disabled", "revoked"],
};

const toneOf = (text: string) => Object.entries(TONES).find(([, texts]) => texts.includes(text))?.[0] ?? "secondary";

/** A status, a state or a role. */
export const Badge = ({ text }: { text: string }) => (
  <span class={`badge bg-${toneOf(text)}-subtle text-${toneOf(text)}-emphasis`}>{text.replaceAll("_", " ")}</span>
);
