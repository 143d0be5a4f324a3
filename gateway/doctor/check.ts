import type { Settings } from "../../server/config.js";
import type { Db } from "../../server/db.js";

export interface CheckResult {
  status: "ok" | "warning" | "failed";
  /** What was found and, unless ok, what to do. */
  message: string;
}

export const ok = (message: string): CheckResult => ({ status: "ok", message });
export const warning = (message: string): CheckResult => ({ status: "warning", message });
export const failed = (message: string): CheckResult => ({ status: "failed", message });

export interface CheckContext {
  settings: Settings;
  env: Record<string, string | undefined>;
  /** Gateway processes that share the database. */
  processes: number;
  /** Whether each of them also sends notifications. */
  worker: boolean;
}

/** A rejection counts as failed. The caller enforces the timeout. */
export interface Check {
  name: string;
  run(context: CheckContext): Promise<CheckResult> | CheckResult;
}

/** A check that is skipped if the database check failed. */
export interface DatabaseCheck {
  name: string;
  run(context: CheckContext, db: Db): Promise<CheckResult>;
}
