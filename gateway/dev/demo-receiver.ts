import { once } from "node:events";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import type { Services } from "../../server/access/context.js";
import { type Caller, createCaller } from "../../server/caller.js";
import { ServiceError } from "../../server/errors.js";
import type { WebhookEvent } from "../../server/webhooks/event-schema.js";
import { sign } from "../../server/webhooks/sign.js";
import { addSentDeliveries } from "./demo-past.js";

/** By this path the endpoint is found again at the next start. */
const PATH = "/guest-forms-demo";

export interface DemoReceiver {
  url: string;
  /** Points an endpoint of the operator to this receiver. Call it after the demo data exist, whose events would be printed too. */
  connect(services: Services): Promise<void>;
  close(): Promise<void>;
}

/** Receives webhooks on a free port of 127.0.0.1, checks their signatures, and prints one line per event. */
export async function startDemoReceiver(print: (line: string) => void): Promise<DemoReceiver> {
  let secret: string | undefined;
  const receive = async (request: IncomingMessage): Promise<number> => {
    const body = await text(request);
    if (request.url !== PATH) return 404;
    if (!secret || !isSigned(request, body, secret)) return 401;
    print(`Webhook: ${describeEvent(JSON.parse(body))}`);
    return 204;
  };
  const server = createServer((request, response) => {
    receive(request).then(
      (status) => response.writeHead(status).end(),
      () => response.destroy(),
    );
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}${PATH}`;
  return {
    url,
    async connect(services) {
      secret = await connectEndpoint(services, url).catch((error) => {
        // The operator has as many endpoints as an owner may have.
        if (!(error instanceof ServiceError) || error.serviceCode !== "VALIDATION_ERROR") throw error;
        print(`Webhooks are not printed: ${error.errors?.[0]?.issue}`);
        return undefined;
      });
    },
    close: () => closeServer(server),
  };
}

function isSigned({ headers }: IncomingMessage, body: string, secret: string): boolean {
  const expected = sign([secret], String(headers["webhook-id"]), Number(headers["webhook-timestamp"]), body);
  return String(headers["webhook-signature"]).split(" ").includes(expected);
}

function describeEvent(event: WebhookEvent): string {
  const { type } = event;
  if (type === "webhook.test") return type;
  const { form } = event.data;
  const about = `${type}, form ${form.id}, status ${form.status}`;
  switch (type) {
    case "form.status_changed":
      return `${about}, from ${event.data.from} to ${event.data.to}`;
    case "form.moved":
      return `${about}, from listing ${event.data.previousListingId} to ${form.listingId}`;
    case "form.updated":
    case "form.party_changed":
      return `${about}, changed ${event.data.fields.join(", ")}`;
    default:
      return about;
  }
}

/** Returns the secret of the endpoint, which is new at each start, so that it is not stored. */
async function connectEndpoint(services: Services, url: string): Promise<string> {
  const { webhooks } = createCaller(services, { kind: "operator" });
  const id = await findEndpoint(webhooks);
  if (!id) {
    const created = await webhooks.create({ url });
    await addSentDeliveries(services, created.id);
    return created.secret;
  }
  await webhooks.update({ id, url });
  await webhooks.enable({ id });
  return (await webhooks.rotateSecret({ id })).secret;
}

async function findEndpoint(webhooks: Caller["webhooks"]): Promise<string | undefined> {
  let cursor: string | undefined;
  do {
    const { items, nextCursor } = await webhooks.list({ limit: 100, cursor });
    const found = items.find(({ userId, url }) => userId === null && new URL(url).pathname === PATH);
    if (found) return found.id;
    cursor = nextCursor ?? undefined;
  } while (cursor);
  return undefined;
}

/** Waits at most a second for requests that are being answered. */
async function closeServer(server: Server): Promise<void> {
  const closed = once(server, "close");
  server.close();
  server.closeIdleConnections();
  await Promise.race([closed, sleep(1_000, undefined, { ref: false })]);
  server.closeAllConnections();
}
