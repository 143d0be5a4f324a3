import { createServer, type IncomingHttpHeaders } from "node:http";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";
import { Webhook } from "standardwebhooks";
import { expect, it, onTestFinished } from "vitest";
import { startTestWorker } from "../support/mail-server.js";
import { listenLocally } from "../support/network.js";
import { openWebhookCore } from "../support/webhook-core.js";
import { tool } from "./tools.js";

const svix: { Webhook: typeof Webhook } = await import(pathToFileURL(tool("svix/dist/index.mjs")).href);

const { services, owner, webhooks, addEndpoint } = await openWebhookCore();

interface Request {
  body: string;
  headers: IncomingHttpHeaders;
}

/** Starts a server that keeps the requests as they arrive. */
async function openRawReceiver() {
  const requests: Request[] = [];
  const server = createServer(async (request, response) => {
    requests.push({ body: await text(request), headers: request.headers });
    response.writeHead(204).end();
  });
  const url = `http://127.0.0.1:${await listenLocally(server)}/hook`;
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url, requests };
}

it.each(Object.entries({ standardwebhooks: Webhook, svix: svix.Webhook }))(
  "%s verifies what the service sends, also with the old or the new secret after a rotation, and rejects what is altered or signed with another",
  async (_, Verifier) => {
    const { url, requests } = await openRawReceiver();
    const { id, secret } = await addEndpoint(url);
    const form = await owner.addForm();
    await startTestWorker(services);
    await expect.poll(() => requests.length).toBe(1);
    const rotated = await webhooks.rotateSecret({ id });
    await webhooks.test({ id });
    await expect.poll(() => requests.length).toBe(2);

    /** Returns the event. Throws unless it is verified. */
    const verify = (key: string, { body, headers }: Request) => {
      new Verifier(key).verify(body, headers as Record<string, string>);
      return JSON.parse(body);
    };
    const [created, tested] = requests as [Request, Request];
    expect(verify(secret, created)).toMatchObject({ type: "form.created", data: { form: { id: form.id } } });
    for (const known of [secret, rotated.secret]) expect(verify(known, tested)).toMatchObject({ type: "webhook.test" });
    expect(() => verify(rotated.secret, created)).toThrow(/signature/i);
    expect(() => verify(secret, { ...created, body: created.body.replace("SENT", "ACCEPTED") })).toThrow(/signature/i);
    const resent = { ...created.headers, "webhook-timestamp": String(Math.floor(Date.now() / 1000) - 600) };
    expect(() => verify(secret, { ...created, headers: resent })).toThrow(/old/i);
  },
);
