import { z } from "zod";
import { type EventType, TEST_EVENT } from "../constants.js";
import { formV1 } from "../forms/schema.js";
import { instantOut, uuidOut } from "../values.js";

// The bodies of webhook requests. They are public like FormV1: the OpenAPI document, the reference and the SDK follow them.

const timestamp = instantOut.meta({
  description:
    "When the change was made, ISO 8601 in UTC. Of two changes of a form, the later one does not have an earlier timestamp. " +
    "`data.form` may be newer.",
  example: "2026-11-21T10:15:30.123Z",
});

const sentAt = instantOut.meta({
  description:
    "When this request was sent, ISO 8601 in UTC. Of two requests about a form, the one with the later `sentAt` has the newer " +
    "`data.form`.",
  example: "2026-11-21T10:15:31.456Z",
});

const form = formV1.meta({ description: "The form as it was when this request was sent." });

const fields = (...example: string[]) =>
  z.array(z.string().meta({ maxLength: 64, pattern: "^[A-Za-z]+$" })).meta({
    description: "Names of the changed fields. `guestEmail` stands for the address, which is never sent.",
    example,
    maxItems: 32,
  });

const status = (description: string, example: string) => formV1.shape.status.meta({ description, example });

/** `form.status_changed` to `FormStatusChangedEvent`. */
const schemaName = (type: string) =>
  `${type.replace(/(?:^|[._])(\w)/g, (_, letter: string) => letter.toUpperCase())}Event`;

const eventOf = <Type extends EventType | typeof TEST_EVENT, Data extends z.ZodRawShape>(
  type: Type,
  description: string,
  data: Data,
) => {
  const literal = z.literal(type).meta({ description: "Type of the event.", example: type });
  const isTest = type === TEST_EVENT;
  const shape = {
    type: literal,
    timestamp: isTest ? timestamp.meta({ description: "When the test was requested, ISO 8601 in UTC." }) : timestamp,
    sentAt,
    data: z.object(data).meta({ description: isTest ? "Empty." : "The form, and what changed." }),
  };
  return z.object(shape).meta({ id: schemaName(type), description });
};

/** Every event. */
export const EVENTS = [
  eventOf("form.created", "A form was created. Replays of a create send no event.", { form }),
  eventOf("form.updated", "The stay of a form was updated, on the same listing.", {
    form,
    fields: fields("checkOutDate", "numberOfGuests"),
  }),
  eventOf("form.moved", "A form was updated with another listing. Other fields may have changed too.", {
    form,
    previousListingId: uuidOut.nullable().meta({
      description: "Listing the form was on before; null if it is not in the scope of the endpoint's owner.",
      example: "b0c7d9e2-94d3-4d3a-8f04-1f6f0f0a4c52",
    }),
    fields: fields("listingId", "checkOutDate"),
  }),
  eventOf("form.status_changed", "The status of a form was changed.", {
    form,
    from: status("Status before the change.", "SENT"),
    to: status("Status after the change. `form.status` may be newer.", "COMPLETED"),
  }),
  eventOf("form.cancelled", "A form was cancelled. It does not change anymore.", {
    form,
    from: status("Status before it was cancelled.", "SENT"),
  }),
  eventOf("form.party_changed", "The number of vehicles or pets of a form was changed.", {
    form,
    fields: fields("numberOfPets"),
  }),
  eventOf(TEST_EVENT, "Sent on request, to test an endpoint.", {}),
] as const;

/** The body of a webhook request. */
export type WebhookEvent = z.infer<(typeof EVENTS)[number]>;
