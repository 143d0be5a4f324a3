import type { Request } from "express";
import { deriveKey } from "../../server/encryption.js";

const ID_LENGTH = 8;

interface SessionCookie {
  name: string;
  /** The id of a session. */
  id: string;
}

/**
 * The cookies of sessions. Their names have an id of the installation, derived from INTERNAL_TOKEN: cookies know no port (RFC 6265,
 * section 8.5), and operators open several installations at the same host name, through SSH tunnels.
 */
export function sessionCookies(internalToken: string) {
  const id = deriveKey(internalToken, "cookie").export().toString("hex").slice(0, ID_LENGTH);
  const plain = `guest_forms_console_${id}`;
  const secure = `__Secure-${plain}`;
  const pattern = new RegExp(`(?:^|; *)(${secure}|${plain})=([\\w-]+)(?=;|$)`, "g");
  return {
    /**
     * The session cookies. A browser that has signed in over http too sends both over https, and another service on this host can
     * add some, with any path, that come before ours.
     */
    read: ({ headers: { cookie = "" } }: Request): SessionCookie[] =>
      [...cookie.matchAll(pattern)].map(([, name = "", id = ""]) => ({ name, id })),

    /** The internal port speaks http, so only the origin of the page says whether a proxy adds TLS. */
    nameFor: ({ headers: { origin } }: Request): string => (origin?.startsWith("https://") ? secure : plain),

    isSecure: (name: string): boolean => name === secure,
  };
}

export type SessionCookies = ReturnType<typeof sessionCookies>;
