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

/** The statuses of the next stage; none after the last one and after an unknown status. */
export function nextStatuses(status: string): readonly string[] {
  const stage = STAGES.findIndex((statuses) => (statuses as readonly string[]).includes(status));
  return stage === -1 ? [] : (STAGES[stage + 1] ?? []);
}

/** Whether a change of status leaves the order of the stages. */
export const isCorrection = (from: string, to: string): boolean =>
  from !== to && !nextStatuses(from).includes(to);
