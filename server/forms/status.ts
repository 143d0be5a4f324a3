/** The stages of a form, in order. A form moves from any status of one stage to any of the next, or is cancelled. */
export const STAGES = [
  ["SENT"],
  ["COMPLETED"],
  ["ACCEPTED", "REJECTED"],
  ["VALIDATED", "INVALIDATED"],
  ["CHECKED_OUT"],
] as const;

/** The status of a form whose booking was cancelled. Nothing changes such a form anymore. */
export const CANCELLED = "CANCELLED";

/** Statuses of a form whose booking is over, so that an equal stay can be booked again. */
export const ENDED_STATUSES: readonly string[] = ["REJECTED", "INVALIDATED", "CHECKED_OUT", CANCELLED];

/** The statuses that this version knows. */
export const KNOWN_STATUSES = [...STAGES.flat(), CANCELLED] as const;

/** The statuses that a user may set next: those of the next stage, or CANCELLED before the last one. */
export function nextStatuses(status: string): readonly string[] {
  if (status === CANCELLED) return [];
  const stage = STAGES.findIndex((statuses) => (statuses as readonly string[]).includes(status));
  if (stage === STAGES.length - 1) return [];
  return [...(stage === -1 ? [] : (STAGES[stage + 1] ?? [])), CANCELLED];
}

/** What `setStatus` accepts. */
export const STATUS_RULE = `must be one of ${KNOWN_STATUSES.join(", ")}; if forced, 1 to 32 of the characters A-Z and _`;

/** `A`, `B` or `C`, for the documents. */
export const ANY_ENDED_STATUS = new Intl.ListFormat("en-GB", { type: "disjunction" }).format(
  ENDED_STATUSES.map((status) => `\`${status}\``),
);

/** The public statuses. Any other stored value is projected as UNKNOWN. */
export const FORM_STATUSES = [...KNOWN_STATUSES, "UNKNOWN"] as const;

export type FormStatus = (typeof FORM_STATUSES)[number];

/** What the statuses usually mean, for the documents. */
export const STATUS_MEANINGS: Record<FormStatus, string> = {
  SENT: "The form exists. The guest has not filled it in.",
  COMPLETED: "The guest has filled it in.",
  ACCEPTED: "The host has accepted it.",
  REJECTED: "The host has rejected it.",
  VALIDATED: "The guests' details were checked and are in order.",
  INVALIDATED: "The guests' details were checked and are not in order.",
  CHECKED_OUT: "The stay is over.",
  CANCELLED: "The booking was cancelled. The form does not change anymore.",
  UNKNOWN: "A status that this version does not list.",
};
