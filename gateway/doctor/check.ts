import type { Settings } from "../../server/config.js";
import type { Db } from "../../server/db.js";

/** What a check found, as a sentence, and what to do about it. */
export interface Finding {
  status: "ok" | "warning" | "failed";
  message: string;
}

export const ok = (message: string): Finding => ({ status: "ok", message });
export const warning = (message: string): Finding => ({ status: "warning", message });
export const failed = (message: string): Finding => ({ status: "failed", message });

/** What the checks look at. */
export interface Examined {
  settings: Settings;
  env: Record<string, string | undefined>;
  /** Gateway processes that share the database. */
  processes: number;
  /** Whether each of them sends notifications too. */
  worker: boolean;
}

/** A check rejects for whatever it did not foresee, which counts as failed. It may take as long as it likes. */
export interface Check {
  name: string;
  run(examined: Examined): Promise<Finding> | Finding;
}

/** A check that is skipped where the database cannot be reached. */
export interface DatabaseCheck {
  name: string;
  run(examined: Examined, db: Db): Promise<Finding>;
}
