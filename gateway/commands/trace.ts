import type { Command } from "commander";
import { addDataCommand } from "../cli/data-command.js";
import { formatTable } from "../cli/print.js";

export const addTrace = (program: Command): Command =>
  addDataCommand(program, "trace <id>", {
    description: "show what the request with this correlation id changed, and the webhook deliveries of it",
    help: `
ID is the correlationId of an error or the X-Correlation-Id of any response. Every log line of the request, including
reads and rejected requests, has it in the field correlationId.

Example:
  guest-forms trace 0d2f9c1a-4c0e-4d64-9a52-0c5b8d9a8b1f`,
    call: (core, { id }: { id: string }) => core.audit.trace({ correlationId: id }),
    text: ({ correlationId, logField, entries, deliveries }) =>
      [
        formatTable(
          entries.map((entry) => ({ ...entry, details: JSON.stringify(entry.details) })),
          ["at", "action", "subjectId", "actor", "actorId", "actorName", "userId", "details"],
          "No changes recorded for this correlation id.",
        ),
        ...(deliveries.length > 0
          ? [
              "",
              formatTable(
                deliveries,
                ["id", "endpointId", "event", "formId", "state", "attempts", "responseStatus", "nextAttemptAt"],
                "",
              ),
            ]
          : []),
        `\nTo find its log lines, search for "${logField}":"${correlationId}".`,
      ].join("\n"),
    optionNames: { correlationId: "ID" },
  });
