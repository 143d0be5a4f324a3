import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import type { Services } from "../../server/access/context.js";
import { createCaller } from "../../server/caller.js";
import { ServiceError } from "../../server/errors.js";
import type { WebhookEvent } from "../../server/webhooks/event-schema.js";
import { ENDPOINT_PATH } from "./demo-facts.js";

export interface DemoReceiver {
  url: string;
  /** Points an endpoint of the operator to this receiver. Call it after the demo data exist, whose events would be printed too. */
  connect(services: Services): Promise<void>;
  close(): void;
}

/** Receives webhooks on a free port of 127.0.0.1, and prints one line per event. */
export async function startDemoReceiver(print: (line: string) => void): Promise<DemoReceiver> {
  const server = createServer((request, response) => {
    json(request).then(
      (event) => {
        print(`Webhook: ${describeEvent(event as WebhookEvent)}`);
        response.writeHead(204).end();
      },
      () => response.writeHead(400).end(),
    );
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}${ENDPOINT_PATH}`;
  return {
    url,
    async connect(services) {
      const { webhooks } = createCaller(services, { kind: "operator" });
      const { items } = await webhooks.list({ limit: 100 });
      const existing = items.find((endpoint) => endpoint.userId === null && endpoint.url.endsWith(ENDPOINT_PATH));
      if (existing) {
        await webhooks.update({ id: existing.id, url });
        await webhooks.enable({ id: existing.id });
        return;
      }
      await webhooks.create({ url }).catch((error) => {
        // The operator has as many endpoints as an owner may have.
        if (!(error instanceof ServiceError) || error.serviceCode !== "VALIDATION_ERROR") throw error;
        print(`Webhooks are not printed: ${error.errors?.[0]?.issue}`);
      });
    },
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

/** The type, the form and what else the event has. */
function describeEvent(event: WebhookEvent): string {
  if (event.type === "webhook.test") return event.type;
  const { form, ...changes } = event.data;
  const facts = [event.type, `form ${form.id}`, `status ${form.status}`];
  return [...facts, ...Object.entries(changes).map(([name, value]) => `${name} ${value}`)].join(", ");
}
