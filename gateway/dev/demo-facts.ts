import type { KeyMode, ROLES } from "../../server/constants.js";

// Who and what the demo has. `demo-history.ts` plans the hosts' stays.

/** Domain of the hosts' addresses, by which an interrupted start is found. */
export const HOSTS_DOMAIN = "@hosts.example";

/** Path of the demo's webhook endpoints, by which the receiver's is found again at the next start. */
export const ENDPOINT_PATH = "/guest-forms-demo";

/** Its key creates the forms of its listings. */
export const INTEGRATOR = "channels";

/** Hosts also own the listings that name them. */
// biome-ignore format: a table, with one row per line to compare them
export const HOSTS: { name: string; fullName: string; role: (typeof ROLES)[number]; listings: string[] }[] = [
  { name: "marta", fullName: "Marta Costa", role: "OWNER", listings: [] },
  { name: "jonas", fullName: "Jonas Weber", role: "OWNER", listings: [] },
  { name: "eleni", fullName: "Eleni Pappas", role: "WRITER", listings: ["rome"] },
  { name: "cleaning", fullName: "Bright Cleaning", role: "READER", listings: ["porto", "rome", "vienna"] },
  { name: INTEGRATOR, fullName: "Channel Connect", role: "WRITER", listings: ["porto", "seville", "rome", "paris", "vienna", "amsterdam", "helsinki"] },
];

/** "demo" is the holder of the demo keys. The last columns: the maximum numbers of guests and vehicles, and whether pets are allowed. */
// biome-ignore format: a table, with one row per line to compare them
const LISTING_ROWS = [
  ["loft", "demo", "Loft by the canal", "Kanalweg 7", "Berlin", "Germany", "10997", "Europe/Berlin", null, 4, 1, true],
  ["cottage", "demo", "Cottage on the cliff", "2 Harbour Lane", "St Ives", "United Kingdom", "TR26 1AB", "Europe/London", null, 6, 1, false],
  ["attic", "demo", "Attic under repair", "Rua da Rosa 31", "Lisboa", "Portugal", "1200-385", "Europe/Lisbon", null, 2, 0, null],
  ["porto", "marta", "Studio by the river", "Rua das Flores 88", "Porto", "Portugal", "4050-265", "Europe/Lisbon", "pt", 2, 0, false],
  ["seville", "marta", "House with a patio", "Calle Feria 45", "Seville", "Spain", "41003", "Europe/Madrid", "es", 5, 1, null],
  ["rome", "marta", "Rooftop flat", "Via Giulia 101", "Rome", "Italy", "00186", "Europe/Rome", "it", 4, 0, false],
  ["paris", "marta", "Two rooms under the roof", "12 Rue Oberkampf", "Paris", "France", "75011", "Europe/Paris", "fr", 2, 0, false],
  ["vienna", "jonas", "Flat by the market", "Neubaugasse 40", "Vienna", "Austria", "1070", "Europe/Vienna", "de", 4, 1, true],
  ["amsterdam", "jonas", "House on the canal", "Prinsengracht 300", "Amsterdam", "Netherlands", "1016 HX", "Europe/Amsterdam", "nl", 4, 0, true],
  ["copenhagen", "jonas", "Courtyard loft", "Istedgade 60", "Copenhagen", "Denmark", "1650", "Europe/Copenhagen", null, 3, 1, null],
  ["helsinki", "jonas", "Apartment with a sauna", "Fredrikinkatu 33", "Helsinki", "Finland", "00120", "Europe/Helsinki", null, 4, 1, true],
  ["athens", "eleni", "Terrace with a view", "Adrianou 24", "Athens", "Greece", "105 55", "Europe/Athens", "en", 6, 1, true],
  ["reykjavik", "eleni", "Cabin near the harbor", "Vesturgata 15", "Reykjavik", "Iceland", "101", "Atlantic/Reykjavik", null, 5, 2, true],
  ["edinburgh", "eleni", "Flat in the old town", "120 High Street", "Edinburgh", "United Kingdom", "EH1 1SG", "Europe/London", null, 2, 0, false],
] as const;

/** The listings of the demo keys, and those of the hosts. `input` is what the core gets. */
export const LISTINGS = LISTING_ROWS.map((row) => {
  const [name, host, title, address, city, country, zipCode, timezone, language, guests, vehicles, pets] = row;
  const limits = { maxPeopleInListing: guests, maxVehicles: vehicles, allowPets: pets };
  return { name, host, input: { title, address, city, country, zipCode, timezone, language, ...limits } };
});

/** The listing that is not active. */
export const INACTIVE = "attic";

/** Forms of the demo keys. `from` is in days from today; the status defaults to SENT. */
// biome-ignore format: a table, with one row per line to compare them
export const DEMO_STAYS: { listing: string; from: number; nights: number; guests: number; status?: string }[] = [
  { listing: "loft", from: -14, nights: 5, guests: 2, status: "CHECKED_OUT" },
  { listing: "loft", from: 3, nights: 4, guests: 3, status: "ACCEPTED" },
  { listing: "loft", from: 10, nights: 2, guests: 1, status: "COMPLETED" },
  { listing: "loft", from: 21, nights: 7, guests: 4 },
  { listing: "loft", from: 40, nights: 3, guests: 2, status: "ON_HOLD" },
  { listing: "cottage", from: 5, nights: 6, guests: 5, status: "REJECTED" },
  { listing: "cottage", from: 16, nights: 7, guests: 2 },
];

/** The first one creates the integrator's forms. */
// biome-ignore format: a table, with one row per line to compare them
export const KEYS: { user: string; label: string; mode: KeyMode; end?: "revoked" | "rotated" }[] = [
  { user: INTEGRATOR, label: "Production", mode: "READ_WRITE" },
  { user: INTEGRATOR, label: "Trial", mode: "READ_WRITE", end: "revoked" },
  { user: INTEGRATOR, label: "Reports", mode: "READ_ONLY", end: "rotated" },
  { user: "marta", label: "Spreadsheet", mode: "READ_ONLY" },
  { user: "jonas", label: "Door lock", mode: "READ_ONLY" },
];

export const DAY_MS = 86_400_000;

/** Form input with check-in at 15:00 UTC `from` days from today, and check-out at 10:00 after `nights`. */
export function formInput(listingId: string, from: number, nights: number, guests: number) {
  const day = (offset: number) => new Date(Date.now() + offset * DAY_MS).toISOString().slice(0, 10);
  return {
    listingId,
    checkInDate: `${day(from)}T15:00:00Z`,
    checkOutDate: `${day(from + nights)}T10:00:00Z`,
    numberOfGuests: guests,
  };
}
