import type { Command } from "commander";
import { withJson } from "./print.js";

/** `migrate`. */
export function addMigrate(program: Command): void {
  withJson(program.command("migrate"))
    .description("bring the database to the current schema")
    .addHelpText(
      "after",
      `
Wants DATABASE_URL. Safe to run from several processes at once, and again at any time. Where APP_SECRETS is unset it
stores one random secret in the database.`,
    )
    .action(async (_options: object, command: Command) => {
      const { migrateDatabase } = await import("./actions/migrate.js");
      await migrateDatabase(command);
    });
}
