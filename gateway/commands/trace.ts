import { command } from "../cli/command.js";
import { argument } from "../cli/fields.js";
import { formatTable } from "../cli/print.js";
import { TEXT } from "../cli/readers.js";

export const trace = command({
  description: "show what the request with this correlation id changed, and the webhook deliveries of it",
  input: { correlationId: argument("<id>", TEXT) },
  help: `
ID is the correlationId of an error or the X-Correlation-Id of any response. Every log line of the request, including
reads and rejected requests, has it in the field correlationId.`,
  examples: ["guest-forms trace 0d2f9c1a-4c0e-4d64-9a52-0c5b8d9a8b1f"],
  call: ({ audit }, input) => audit.trace(input),
  text: ({ correlationId, logField, entries, deliveries }) =>
    [
      formatTable(
        entries,
        [
          ...(["at", "action", "subjectId", "actor", "actorId", "actorName", "userId", "keyPrefix"] as const),
          ["details", ({ details }) => JSON.stringify(details)],
        ],
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
});
