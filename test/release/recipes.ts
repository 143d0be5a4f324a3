import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { recipeSamples } from "../contract/samples.js";
import { passThrough, type startFaultProxy } from "../sdk/fault-proxy.js";
import type { ProcessResult, RunningProcess } from "../support/processes.js";
import { bundleWithSdk } from "../support/sdk-programs.js";

type FaultProxy = Awaited<ReturnType<typeof startFaultProxy>>;

/** A booking as `bookings.json` of the recipe has it. */
export interface Booking {
  id: string;
  listingId: string;
  checkIn: string;
  checkOut: string;
  guests: number;
  guestEmail?: string;
  isCancelled?: boolean;
}

/** Writes the program below this heading of the guide into the folder, ready to run. Returns its path. */
export async function writeRecipe(folder: string, heading: string): Promise<string> {
  const recipe = recipeSamples().find(({ name }) => name === `${heading} ts 1`);
  if (!recipe) return expect.fail(`the guide has no recipe "${heading}"`);
  await mkdir(folder, { recursive: true });
  const file = join(folder, `${heading.replaceAll(/\W+/g, "-")}.ts`);
  await writeFile(file, recipe.source);
  return bundleWithSdk(file);
}

/**
 * Starts a program that sends its requests to this proxy, and kills it when the service has processed one of them, before the
 * program gets the response. `position` is 1 for the first request.
 */
export async function killAtRequest(
  proxy: FaultProxy,
  position: number,
  start: () => RunningProcess,
): Promise<ProcessResult> {
  let count = 0;
  proxy.injectAlways(async (exchange) => {
    count += 1;
    if (count !== position) return passThrough(exchange);
    await exchange.forward();
    await program.stop("SIGKILL");
  });
  const program = start();
  const result = await program.done;
  proxy.injectAlways(passThrough);
  expect(result.signal, `killed at request ${position}: ${result.stdout}${result.stderr}`).toBe("SIGKILL");
  return result;
}
