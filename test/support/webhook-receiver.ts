import { createHmac } from "node:crypto";
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { onTestFinished } from "vitest";
import { EVENTS, type WebhookEvent } from "../../server/webhooks/event-schema.js";
import { listenLocally } from "./network.js";

export interface ReceivedWebhook {
  /** The `webhook-id`. */
  id: string;
  event: WebhookEvent;
  /** The secrets, of those known, whose signature it has. */
  signedBy: string[];
  /** `performance.now()` of its arrival. */
  at: number;
}

type Respond = (response: ServerResponse, request: IncomingMessage) => unknown;

export type WebhookReceiver = Awaited<ReturnType<typeof openReceiver>>;

const SCHEMAS = new Map(EVENTS.map((schema) => [schema.shape.type.value as string, schema]));

/** Parses a body, which must have exactly the fields of its event. */
function parseEvent(body: string): WebhookEvent {
  const json = JSON.parse(body);
  const schema = SCHEMAS.get(json.type);
  if (!schema) throw new Error(`unknown event ${json.type}`);
  const event = schema.strict().parse(json);
  if (JSON.stringify(event) !== body) throw new Error(`the body has other fields than its schema: ${body}`);
  return event;
}

/** The signature of Standard Webhooks, written independently of the service. */
const signature = (secret: string, signed: string) =>
  createHmac("sha256", Buffer.from(secret.replace("whsec_", ""), "base64"))
    .update(signed)
    .digest("base64");

/** Starts a receiver of webhooks that is closed after the test. It answers 204 unless `respond` is set. */
export async function openReceiver(respond?: Respond) {
  const received: ReceivedWebhook[] = [];
  const secrets: string[] = [];
  const errors: unknown[] = [];
  const receiver = {
    received,
    /** The secrets that `signedBy` knows. */
    secrets,
    /** What was wrong with requests, other than their signatures. */
    errors,
    respond: respond ?? ((response: ServerResponse) => response.writeHead(204).end()),
    url: "",
    types: () => received.map(({ event }) => event.type),
  };
  const onRequest: RequestListener = async (request, response) => {
    try {
      const body = await text(request);
      const {
        "webhook-id": id = "",
        "webhook-timestamp": at = "",
        "webhook-signature": signatures = "",
      } = request.headers;
      const sent = `${signatures}`.split(" ");
      const signedBy = secrets.filter((secret) => sent.includes(`v1,${signature(secret, `${id}.${at}.${body}`)}`));
      if (Math.abs(Date.now() / 1000 - Number(at)) > 60) throw new Error(`the timestamp is ${at}`);
      if (request.headers["content-type"] !== "application/json") throw new Error("the body is not JSON");
      received.push({ id: `${id}`, event: parseEvent(body), signedBy, at: performance.now() });
    } catch (error) {
      errors.push(error);
    }
    receiver.respond(response, request);
  };
  const server = createServer(onRequest);
  receiver.url = `http://127.0.0.1:${await listenLocally(server)}/hook`;
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return receiver;
}
