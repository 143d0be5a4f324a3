import { factsOf } from "./database/failures.js";

// What an operator can do about a connection to a server that fails.

type ServerSetting = "DATABASE_URL" | "DATABASE_REPLICA_URL" | "REDIS_URL" | "SMTP_URL";

/** The first that matches the codes and the message of an error counts. */
type Rules = [pattern: RegExp, advice: string][];

/** OpenSSL reports these if the server answers in plain text. */
const NO_TLS = /wrong version number|(packet|data) length too long/;

/** The reason in any error of OpenSSL, such as `…:error:0A000410:SSL routines:ssl3_read_bytes:sslv3 alert handshake failure:…`. */
const TLS_REASON = /SSL routines:[^:]*:([^:]+)/;

const CHECK_TLS = "Check that the server accepts TLS 1.2 or 1.3, common ciphers, and clients without a certificate.";

const postgresRules = (setting: ServerSetting): Rules => [
  [
    /self.signed|SELF_SIGNED|UNABLE_TO_(GET_ISSUER|VERIFY)/,
    `This machine does not know the authority of its certificate: add sslrootcert=FILE to ${setting}, with the certificate of the authority.`,
  ],
  [/does not support SSL connections/, `Enable TLS on the server, or set sslmode=disable in ${setting}.`],
  [
    TLS_REASON,
    `Check that the server accepts TLS 1.2 or 1.3 and common ciphers. If it requires a client certificate, add sslcert and sslkey to ${setting}.`,
  ],
  [/no encryption|SSL off/, `If it accepts only TLS, add sslmode=verify-full to ${setting}.`],
];

const RULES: Record<ServerSetting, Rules> = {
  DATABASE_URL: postgresRules("DATABASE_URL"),
  DATABASE_REPLICA_URL: postgresRules("DATABASE_REPLICA_URL"),
  REDIS_URL: [
    [NO_TLS, "The server does not use TLS: use redis:// in REDIS_URL."],
    [TLS_REASON, CHECK_TLS],
    [/Socket closed unexpectedly/, "Use rediss:// in REDIS_URL if the server uses TLS."],
    [
      /WRONGPASS|NOAUTH/,
      "Check the user name and the password in REDIS_URL. Special characters must be percent-encoded.",
    ],
  ],
  SMTP_URL: [
    [NO_TLS, "This port does not use implicit TLS: use smtp:// in SMTP_URL, with ?requireTLS=true and port 587."],
    [TLS_REASON, CHECK_TLS],
    [/^EAUTH$/, "Check the user name and the password in SMTP_URL. Special characters must be percent-encoded."],
    [
      /Greeting never received|^Timeout$/,
      "Use smtps:// in SMTP_URL if the port uses implicit TLS, such as 465. Otherwise check the host and the port.",
    ],
    [/^ETLS$/, "The server must offer STARTTLS for ?requireTLS=true: use smtps:// in SMTP_URL, with port 465."],
  ],
};

const certificateRules = (setting: ServerSetting): Rules => [
  [
    /self.signed|SELF_SIGNED|UNABLE_TO_(GET_ISSUER|VERIFY)/,
    "This machine does not know the authority of its certificate: set NODE_EXTRA_CA_CERTS to a file with the certificate of the authority.",
  ],
  [/ALTNAME|altnames/, `Use a host name of its certificate in ${setting}.`],
  [/CERT_HAS_EXPIRED|certificate has expired/, "Renew its certificate."],
];

const networkRules = (setting: ServerSetting): Rules => [
  [/ECONNREFUSED/, `Nothing listens there: start the server, or correct the host and the port in ${setting}.`],
  [/ENOTFOUND|EAI_AGAIN|EDNS/, `The host name is unknown: check it in ${setting}, and the DNS of this machine.`],
  [/ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|trying to connect/, `Check the host and the port in ${setting}, and firewalls.`],
];

/** What to do about a failed connection to the server of this setting. Undefined if that is unknown. */
export function connectionAdvice(error: unknown, setting: ServerSetting): string | undefined {
  // The message of an error with a reply of the mail server quotes it.
  const hasReply = typeof error === "object" && error !== null && "responseCode" in error;
  const facts = factsOf(error).flatMap(({ codes, message }) => (hasReply ? codes : [...codes, message]));
  const rules = [...RULES[setting], ...certificateRules(setting), ...networkRules(setting)];
  return rules.find(([pattern]) => facts.some((fact) => pattern.test(fact)))?.[1];
}

/** One line: why the connection to the server of this setting failed and, if known, what to do. */
export function describeConnectionFailure(error: unknown, setting: ServerSetting): string {
  const facts = factsOf(error);
  // ECONNREFUSED of a host with several addresses has no message.
  const text = facts.find(({ message }) => message)?.message ?? facts.flatMap(({ codes }) => codes)[0] ?? String(error);
  // Without the version of TLS that OpenSSL names an alert after: it is not the one in use.
  const tlsReason = TLS_REASON.exec(text)?.[1]?.replace(/^\S+ (?=alert )/, "");
  const reason = tlsReason ? `TLS failed: ${tlsReason}` : text.replace(/\s+/g, " ").trim();
  const advice = connectionAdvice(error, setting);
  return advice === undefined ? reason : `${reason.replace(/\.$/, "")}. ${advice}`;
}
