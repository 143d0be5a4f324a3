import type { Command } from "commander";
import { notes } from "./help.js";
import { table } from "./print.js";
import { dataCommand, operate } from "./run.js";

/** `trace`. */
export function addTrace(program: Command): void {
  dataCommand(program, "trace <id>")
    .description("tell what the request with this correlation id did")
    .addHelpText(
      "after",
      notes(`
ID is the correlationId of an error, or the X-Correlation-Id of any response. The log lines of the request carry it in
the field correlationId, those of what only read or was refused too.

Example:
  guest-forms trace 0d2f9c1a-4c0e-4d64-9a52-0c5b8d9a8b1f`),
    )
    .action((id: string, _options: object, command: Command) =>
      operate(command, {
        call: (core) => core.audit.trace({ correlationId: id }),
        text: ({ correlationId, logField, entries }) =>
          [
            table(
              entries.map((entry) => ({ ...entry, details: JSON.stringify(entry.details) })),
              ["at", "action", "subjectId", "actor", "actorId", "userId", "details"],
              "It changed nothing: it only read, was refused, or never was.",
            ),
            `\nLog lines: those with "${logField}":"${correlationId}".`,
          ].join("\n"),
        options: { correlationId: "ID" },
      }),
    );
}
