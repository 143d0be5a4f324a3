import { createTRPCClient, httpLink } from "@trpc/client";
import type { Request } from "express";
import { sessionCookies } from "../../gateway/console/cookies.js";
import type { ConsoleRouter } from "../../gateway/console/router.js";
import { type startInternalGateway, TOKEN } from "./internal-gateway.js";

/** Name of the cookie of a session over http, with TOKEN. */
export const COOKIE = sessionCookies(TOKEN).nameFor({ headers: {} } as Request);

/** An operator's browser: sends what the pages of the console send, and keeps the cookie. */
export class Browser {
  cookie = "";
  readonly #url: string;

  constructor(url: string) {
    this.#url = url;
  }

  /** `body` is sent as JSON. */
  async send(method: string, path: string, { body, headers = {} }: { body?: unknown; headers?: object } = {}) {
    const response = await fetch(this.#url + path, {
      method,
      redirect: "manual",
      headers: {
        "Sec-Fetch-Site": "same-origin",
        ...(this.cookie && { Cookie: this.cookie }),
        ...(body !== undefined && { "Content-Type": "application/json" }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    const isJson = text !== "" && response.headers.get("content-type")?.startsWith("application/json");
    return { status: response.status, headers: response.headers, text, json: isJson ? JSON.parse(text) : undefined };
  }

  /** Signs in, by default with the right token, and keeps the cookie. */
  async signIn({ name = "Ada", token = TOKEN, headers = {} } = {}) {
    const response = await this.send("POST", "/console/session", { body: { name, token }, headers });
    const [cookie = ""] = response.headers.getSetCookie();
    if (response.status === 204) this.cookie = cookie.split(";", 1)[0] ?? "";
    return response;
  }

  /** The value of the cookie. */
  get sessionId(): string {
    return this.cookie.split("=")[1] ?? "";
  }

  readonly signOut = () => this.send("DELETE", "/console/session");

  /** The status of the session: 200 or 401. */
  readonly sessionStatus = async () => (await this.send("GET", "/console/session")).status;

  /** The procedures, as the pages call them. */
  readonly procedures = (headers: Record<string, string> = {}) =>
    createTRPCClient<ConsoleRouter>({
      links: [
        httpLink({
          url: `${this.#url}/console/trpc`,
          headers: { "Sec-Fetch-Site": "same-origin", Cookie: this.cookie, ...headers },
          methodOverride: "POST",
        }),
      ],
    });
}

/** A browser whose operator has signed in. */
export async function openBrowser({ url, gateway }: Awaited<ReturnType<typeof startInternalGateway>>) {
  const browser = new Browser(url);
  await browser.signIn();
  gateway.forbidInLog(browser.sessionId);
  return browser;
}
