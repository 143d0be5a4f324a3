import type { Sql } from "./db.js";
import type { StopSignal } from "./failures.js";

// Where reads of the six operations run, on the primary or a standby (standby.ts).

/** What a read learns from the primary when it arrives. */
export interface Arrival {
  /** Up to where the primary has flushed its WAL. */
  position: string;
  /** The primary's time: the clock of a standby may be wrong. */
  now: string;
  /** Of the primary's WAL. */
  timeline: string;
  /** That of the timeline; null if it has none yet. */
  mark: string | null;
}

/**
 * Where a read ran, or why on the primary. `recent`: creates in flight could come before the end of a page. `cancelled`: only this
 * read took too long, or failed. `unused`: others had found the standby behind or failed.
 */
export const READ_PLACES = ["standby", "recent", "behind", "cancelled", "failed", "unused"] as const;
export type ReadPlace = (typeof READ_PLACES)[number];

/** Thrown by a read on a standby that must run on the primary. */
export class NeedsPrimary extends Error {
  readonly reason: Exclude<ReadPlace, "standby">;

  constructor(reason: NeedsPrimary["reason"], cause?: unknown) {
    super(`the read needs the primary: ${reason}`, { cause });
    this.reason = reason;
  }
}

/** Runs on the database that it is given: a standby if there is an arrival, else the primary. */
export type Read<Result> = (sql: Sql, arrival?: Arrival) => Promise<Result>;

/** Runs reads of one resource or page each: on a standby, or on the primary. */
export interface Reads {
  /** After `signal` aborts, nothing is started on the primary. */
  run<Result>(work: Read<Result>, signal: StopSignal): Promise<Result>;
}

/** What reads tell the process. */
export interface ReadHooks {
  /** Called for each read; `cause` is why it left the standby. */
  onRead: (place: ReadPlace, cause?: NeedsPrimary) => void;
  /** Called when reads cease to use the standby, and when they use it again. */
  onUse: (isUsed: boolean, cause?: unknown) => void;
}
