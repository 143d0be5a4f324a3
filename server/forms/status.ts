import { invalid } from "../errors.js";

/** The stages of a form, in order: a form goes from any status of one stage to any of the next. */
const STAGES = [
  ["SENT"],
  ["COMPLETED"],
  ["ACCEPTED", "REJECTED"],
  ["VALIDATED", "INVALIDATED"],
  ["CHECKED_OUT"],
] as const;

/** The public statuses; any other stored value is shown as UNKNOWN. */
export const FORM_STATUSES = [...STAGES.flat(), "UNKNOWN"] as const;

export type FormStatus = (typeof FORM_STATUSES)[number];

const isPublic = (status: string): status is FormStatus =>
  (FORM_STATUSES as readonly string[]).includes(status);

export const projectStatus = (status: string): FormStatus => (isPublic(status) ? status : "UNKNOWN");

function nextStatuses(status: string): readonly string[] {
  const stage = STAGES.findIndex((statuses) => (statuses as readonly string[]).includes(status));
  return stage === -1 ? [] : (STAGES[stage + 1] ?? []);
}

/** Whether a change of status leaves the order of the stages. */
export const isCorrection = (from: string, to: string): boolean =>
  from !== to && !nextStatuses(from).includes(to);

/** Throws VALIDATION_ERROR if a change of status leaves the order of the stages. */
export function checkStatusOrder(from: string, to: string): void {
  if (!isCorrection(from, to)) return;
  const next = nextStatuses(from);
  const issue = `a form that is ${projectStatus(from)} can ${next.length > 0 ? `only become ${next.join(" or ")}` : "not go on"}`;
  throw invalid([{ field: "status", issue }]);
}
