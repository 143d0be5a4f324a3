import { instantIn } from "../../sdk/src/index.js";
import type { Booking } from "./recipes.js";

/** Of the story: what becomes of a booking. */
type Fate = "changed" | "cancelled" | "corrected" | "late" | "moved" | "rebooked" | "tomorrow" | "unchanged";

export interface StoryBooking extends Booking {
  fate: Fate;
  /** The client that syncs it. */
  client: "fetch" | "sdk";
}

export interface StoryListing {
  id: string;
  timezone: string;
}

const BOOKINGS = 400;
const DAY_MS = 86_400_000;

/** How many bookings have each fate. All others are unchanged. */
const COUNTS: Partial<Record<Fate, number>> = {
  cancelled: 40,
  rebooked: 40,
  moved: 40,
  late: 40,
  changed: 20,
  corrected: 10,
  tomorrow: 10,
};
const FATES = Object.entries(COUNTS).flatMap(([fate, count]) => Array<Fate>(count).fill(fate as Fate));

/** Bookings of equal stays, which are next to each other, have different fates: 400 and 7 have no common divisor. */
const fateOf = (index: number): Fate => FATES[(index * 7) % BOOKINGS] ?? "unchanged";

const dayAfter = (day: string, days: number) => new Date(Date.parse(day) + days * DAY_MS).toISOString().slice(0, 10);

/** Tomorrow in a time zone, as `YYYY-MM-DD`. */
export const tomorrowIn = (timeZone: string) => dayAfter(new Intl.DateTimeFormat("sv", { timeZone }).format(), 1);

/** The bookings as they are made: in groups of four that are equal but for their ids and, in two of three groups, their addresses. */
export function makeBookings(listings: readonly StoryListing[]): StoryBooking[] {
  return Array.from({ length: BOOKINGS }, (_, index): StoryBooking => {
    const fate = fateOf(index);
    const group = Math.floor(index / 4);
    const { id: listingId = "", timezone = "" } = listings[group % listings.length] ?? {};
    const day = fate === "tomorrow" ? tomorrowIn(timezone) : dayAfter("2031-03-01", group);
    const hasAddress = fate === "corrected" || (fate !== "late" && group % 3 !== 0);
    const id = `B-${index}`;
    return {
      id,
      fate,
      client: index % 2 ? "fetch" : "sdk",
      listingId,
      checkIn: `${day}T15:00`,
      checkOut: `${dayAfter(day, 7)}T11:00`,
      guests: 2,
      ...(hasAddress && { guestEmail: addressOf(id) }),
    };
  });
}

const addressOf = (id: string) => `${id.toLowerCase()}@guests.example.com`;

/** The bookings after all that happens to them, and the new bookings of the stays that were cancelled and booked again. */
export function changeBookings(bookings: readonly StoryBooking[], listings: readonly StoryListing[]): StoryBooking[] {
  return bookings.flatMap((booking): StoryBooking[] => {
    const { fate, id, listingId, guestEmail } = booking;
    switch (fate) {
      case "cancelled":
        return [{ ...booking, isCancelled: true }];
      case "rebooked": {
        const next = { ...booking, id: `${id}-next`, ...(guestEmail && { guestEmail: addressOf(`${id}-next`) }) };
        return [{ ...booking, isCancelled: true }, next];
      }
      case "moved": {
        const at = listings.findIndex((listing) => listing.id === listingId);
        return [{ ...booking, listingId: listings[(at + 1) % listings.length]?.id ?? "" }];
      }
      case "late":
        return [{ ...booking, guestEmail: addressOf(id) }];
      case "changed":
        return [{ ...booking, checkIn: booking.checkIn.replace("15:00", "18:30"), guests: 3 }];
      case "corrected":
        return [{ ...booking, guestEmail: addressOf(`${id}-corrected`) }];
      default:
        return [booking];
    }
  });
}

/** The stay of a booking as its form has it. */
export function stayOf({ listingId, checkIn, checkOut, guests }: Booking, timezones: ReadonlyMap<string, string>) {
  const timezone = timezones.get(listingId) ?? "";
  return {
    listingId,
    checkInDate: instantIn(timezone, checkIn),
    checkOutDate: instantIn(timezone, checkOut),
    numberOfGuests: guests,
  };
}
