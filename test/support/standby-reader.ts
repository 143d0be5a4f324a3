import { expect, onTestFinished } from "vitest";
import { migrate } from "../../prisma/migrate.js";
import { readSettings } from "../../server/config.js";
import type { ReadPlace } from "../../server/database/reads.js";
import { openServices } from "../../server/services.js";
import { afterFile } from "./after-file.js";
import { LONG_DATABASE_TIMEOUTS } from "./database.js";
import { asUser, openTestServices, TEST_SECRET } from "./factories.js";
import { makeListingOwner } from "./listing-owner.js";
import { PostgresCluster } from "./postgres-cluster.js";
import { addStandby, isCaughtUp } from "./standby.js";

/** Connections of a reader, to each server. */
export const POOL_SIZE = 8;

export interface ReaderOptions {
  standby?: PostgresCluster;
  url?: string;
  atEnd?: (close: () => Promise<void>) => void;
}

/** Adds a standby that ends with the test file. */
export async function startStandby(of: PostgresCluster): Promise<PostgresCluster> {
  const standby = await addStandby(of);
  afterFile(() => standby.remove());
  return standby;
}

/**
 * Starts a primary with the form of a host. Returns a process that writes there, and what opens others that read from standbys: they
 * share nothing but the database.
 */
export async function startReplicated() {
  const primary = await PostgresCluster.create();
  afterFile(() => primary.remove());
  await migrate(primary.url);
  const writer = await openTestServices({ DATABASE_URL: primary.url });
  const owner = await makeListingOwner(writer);
  const old = await owner.addForm();

  /** Opens a process that reads from a standby, by default a new one, and records where its reads run. It ends with the test. */
  async function openReader(
    env: Record<string, string> = {},
    { standby, url = primary.url, atEnd = onTestFinished }: ReaderOptions = {},
  ) {
    const replica = standby ?? (await startStandby(primary));
    const places: ReadPlace[] = [];
    const warnings: string[] = [];
    const settings = readSettings({
      APP_SECRETS: TEST_SECRET,
      ...LONG_DATABASE_TIMEOUTS,
      DATABASE_POOL_SIZE: `${POOL_SIZE}`,
      DATABASE_URL: url,
      DATABASE_REPLICA_URL: replica.url,
      ...env,
    });
    const log = { warn: (_: object, message: string) => void warnings.push(message) };
    const { services, close } = await openServices(settings, log, { onRead: (place) => places.push(place) });
    atEnd(close);
    const { forms, listings } = asUser(services, owner.userId);
    /** Returns the result of reads, and where they ran. */
    const locate = async <Result>(work: () => Promise<Result>): Promise<[Result, ReadPlace[]]> => {
      places.length = 0;
      const result = await work();
      return [result, [...places]];
    };
    const waitUntilUsed = () => expect.poll(async () => (await readOld())[1], { interval: 5 }).toEqual(["standby"]);
    const readOld = () => locate(() => forms.get({ id: old.id }));
    return {
      standby: replica,
      services,
      places,
      forms,
      listings,
      warnings,
      locate,
      /** A read that must succeed, wherever it runs. Returns where. */
      async readSomewhere() {
        const [form, [place]] = await readOld();
        expect(form).toEqual(old);
        return place;
      },
      /** Waits until reads run on the standby. */
      waitUntilUsed,
      /** As `locate` when the standby is used, again if it was behind: on a busy machine it may be some milliseconds. */
      async locateReplayed<Result>(work: () => Promise<Result>): Promise<[Result, ReadPlace[]]> {
        for (;;) {
          await waitUntilUsed();
          const located = await locate(work);
          if (!located[1].includes("behind")) return located;
        }
      },
      /** Waits until these reads run on the standby: on a busy machine it may be some milliseconds behind. Expects their result. */
      expectOnStandby: (work: () => Promise<unknown>, result: unknown) =>
        expect.poll(() => locate(work), { interval: 5 }).toEqual([result, ["standby"]]),
      waitForReplay: () => expect.poll(() => isCaughtUp(primary, replica), { interval: 5 }).toBe(true),
    };
  }
  return { primary, writer, owner, old, openReader };
}
