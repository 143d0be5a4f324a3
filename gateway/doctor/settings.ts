import { BlockList, isIP } from "node:net";
import { tlsOf } from "../../prisma/connection.js";
import type { Settings } from "../../server/config.js";
import { type Environment, misspelledSettings } from "./misspelled.js";

// Settings that are valid, but cannot be right. Each sentence says what is wrong, then what to do.

/** Undefined or false: no problem. */
type Problems = (string | false | undefined)[];

/** What is wrong with the settings of connections and of the process. */
export function findSettingProblems(settings: Settings, env: Environment): string[] {
  const { NODE_ENV, SMTP_URL } = settings;
  const misspelled = misspelledSettings(env).map(({ name, meant }) => `${name} (did you mean ${meant}?)`);
  const problems: Problems = [
    misspelled.length > 0 && `Unknown settings: ${misspelled.join(", ")}. Rename or unset them.`,
    NODE_ENV !== undefined &&
      !NODE_ENVS.includes(NODE_ENV) &&
      `NODE_ENV is ${JSON.stringify(NODE_ENV)}, which counts as development: set it to production, development or test.`,
    findOpenInternalPort(settings, env),
    ...(["DATABASE_URL", "DATABASE_DIRECT_URL", "DATABASE_REPLICA_URL"] as const).map((name) =>
      findUnverifiedDatabase(name, settings[name]),
    ),
    ...(SMTP_URL === undefined ? [] : findMailProblems(new URL(SMTP_URL))),
  ];
  return problems.filter((problem) => typeof problem === "string");
}

const NODE_ENVS = ["production", "development", "test"];

function findOpenInternalPort({ INTERNAL_HOST, INTERNAL_TOKEN }: Settings, { container }: Environment) {
  if (INTERNAL_TOKEN === undefined) return undefined;
  // A container has its own interfaces, and publishes no port by itself. Its runtime, or our image, sets `container`.
  const reach = ALL_INTERFACES.includes(INTERNAL_HOST)
    ? !container && "all interfaces"
    : isIP(INTERNAL_HOST) !== 0 && !isHostIn(INTERNAL_HOST, PRIVATE) && "a public address";
  return (
    reach &&
    `INTERNAL_HOST ${INTERNAL_HOST} is ${reach}: the console and INTERNAL_TOKEN are sent over plain HTTP. Set it to 127.0.0.1, or to one address in a private network.`
  );
}

const ALL_INTERFACES = ["0.0.0.0", "::"];

const findUnverifiedDatabase = (name: string, url: string | undefined) =>
  url !== undefined &&
  tlsOf(new URL(url).searchParams) === "unverified" &&
  `${name} has sslmode=no-verify: anybody on the network path can pose as the database. Use sslmode=verify-full, with sslrootcert=FILE if the authority of its certificate is your own.`;

/** The port of implicit TLS (RFC 8314), and those of STARTTLS. */
const TLS_PORT = "465";
const STARTTLS_PORTS = ["25", "587"];

function findMailProblems({ protocol, port, password, hostname, searchParams }: URL): Problems {
  const isTls = protocol === "smtps:" || searchParams.get("secure") === "true";
  const isLocal = isHostIn(hostname, LOOPBACK);
  return [
    !isTls &&
      port === TLS_PORT &&
      "SMTP_URL has smtp:// with port 465, which uses implicit TLS: use smtps://, or port 587.",
    isTls &&
      STARTTLS_PORTS.includes(port) &&
      `SMTP_URL has smtps:// with port ${port}, which uses STARTTLS: use smtp:// with ?requireTLS=true, or port 465.`,
    !isTls &&
      port !== TLS_PORT &&
      password !== "" &&
      !isLocal &&
      searchParams.get("requireTLS") !== "true" &&
      "SMTP_URL has smtp:// with a password, which is sent in clear text if the server, or somebody in between, offers no STARTTLS: add ?requireTLS=true, or use smtps://.",
    !isLocal &&
      searchParams.get("tls.rejectUnauthorized") === "false" &&
      "SMTP_URL has tls.rejectUnauthorized=false: anybody on the network path can pose as the mail server. Remove it, and set NODE_EXTRA_CA_CERTS to the certificate of your own authority, if it has one.",
  ];
}

/** What is wrong with the links of guests and of clients. Outside production, they may lead anywhere. */
export function findLinkProblems(settings: Settings): string[] {
  if (settings.NODE_ENV !== "production") return [];
  return LINKS.flatMap(({ name, readers }) => {
    const link = settings[name];
    if (link === undefined) return [];
    const { protocol, hostname } = new URL(link);
    if (isHostIn(hostname, PRIVATE))
      return [`${name} leads to ${hostname}, which ${readers} cannot reach: set it to a public https URL.`];
    return protocol === "http:"
      ? [`${name} is an http URL, which anybody on the network path can read: use https.`]
      : [];
  });
}

const LINKS = [
  { name: "FORM_URL_TEMPLATE", readers: "guests" },
  { name: "EMAIL_PRIVACY_URL", readers: "guests" },
  { name: "PUBLIC_URL", readers: "clients outside your network" },
] as const;

interface HostRange {
  names: RegExp;
  addresses: BlockList;
}

function range(names: RegExp, subnets: string[]): HostRange {
  const addresses = new BlockList();
  for (const subnet of subnets) {
    const [address = "", prefix] = subnet.split("/");
    addresses.addSubnet(address, Number(prefix), isIP(address) === 6 ? "ipv6" : "ipv4");
  }
  return { names, addresses };
}

const LOOPBACK_SUBNETS = ["127.0.0.0/8", "::1/128"];
const LOOPBACK = range(/^(.*\.)?localhost$/i, LOOPBACK_SUBNETS);
/** A name of one label is resolved only in its own network. */
const PRIVATE = range(/^[^.]+$|\.(localhost|local|internal)$/i, [
  ...LOOPBACK_SUBNETS,
  ...[
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "169.254.0.0/16",
    "::/128",
    "fc00::/7",
    "fe80::/10",
  ],
]);

function isHostIn(hostname: string, { names, addresses }: HostRange): boolean {
  const host = hostname.replace(/^\[|\]$|\.$/g, "");
  const family = isIP(host);
  return family === 0 ? names.test(host) : addresses.check(host, family === 6 ? "ipv6" : "ipv4");
}
