import type { Command } from "commander";
import { createCaller } from "../../../server/caller.js";
import { openServices } from "../../../server/services.js";
import { createLog } from "../../process/log.js";
import { settingsOrDev } from "../environment.js";
import { explain } from "../failure.js";
import { print } from "../print.js";
import type { Operation } from "../run.js";

/** Calls the core as the operator and prints what it answers. */
export async function operate<Result>(command: Command, operation: Operation<Result>): Promise<void> {
  const settings = settingsOrDev();
  try {
    const { services, close } = await openServices(settings, createLog(settings.LOG_LEVEL));
    try {
      const result = await operation.call(createCaller(services, { kind: "operator" }));
      print(command, result, operation.text(result));
    } finally {
      await close();
    }
  } catch (error) {
    throw explain(error, { databaseUrl: settings.DATABASE_URL, wording: operation });
  }
}
