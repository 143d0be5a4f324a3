import { command, noun } from "../cli/command.js";
import {
  argument,
  type Field,
  flag,
  option,
  required,
  searchOption,
  USER_REFERENCE,
  userFilter,
} from "../cli/fields.js";
import { list } from "../cli/list.js";
import { LISTING, named, orNone, type Reader, TEXT, USER_OPTION, WHOLE_NUMBER } from "../cli/readers.js";

const NO_LISTING = "There is no listing with this id or external id.";
const LISTING_ID = { ...argument("<listing>", LISTING), notFound: NO_LISTING };
const LANGUAGE = "language of the invitation to its guests, such as de or pt-BR";
const TRUE_OR_FALSE = named({ true: true, false: false });

type MakeOption<Value> = (flags: string, description: string, reader: Reader<string>) => Field<Value>;

/** Options of create, where they are required, and of update. */
const placeOptions = <Value>(make: MakeOption<Value>) => ({
  title: make("--title <text>", "title, at most 200 characters", TEXT),
  address: make("--address <text>", "street and number, at most 500 characters", TEXT),
  city: make("--city <text>", "city", TEXT),
  country: make("--country <text>", "country", TEXT),
  zipCode: make("--zip-code <text>", "postal code, at most 20 characters", TEXT),
  timezone: make("--timezone <name>", "IANA time zone, such as Europe/Berlin", TEXT),
});

export const listings = noun("rental properties", {
  create: command({
    description: "create a listing and make a user its owner",
    input: {
      ownerId: required("--owner <user>", `owner: ${USER_REFERENCE} of a user`, USER_OPTION),
      ...placeOptions(required),
      district: option("--district <text>", "district (default: none)", TEXT),
      maxPeopleInListing: option(
        "--max-people <number>",
        "maximum number of guests per form, at least 1 (default: no limit)",
        WHOLE_NUMBER,
      ),
      maxVehicles: option(
        "--max-vehicles <number>",
        "maximum number of vehicles per form (default: no limit)",
        WHOLE_NUMBER,
      ),
      allowPets: option("--allow-pets <answer>", "whether pets are allowed (default: not specified)", TRUE_OR_FALSE),
      language: option("--language <tag>", `${LANGUAGE} (default: none)`, TEXT),
      active: flag("--inactive", "accept no new forms (default: active)", false),
    },
    examples: [
      `guest-forms listings create --owner host@example.com --title "Loft by the canal" \\
    --address "Kanalweg 7" --city Berlin --country Germany --zip-code 10997 --timezone Europe/Berlin --max-people 4`,
    ],
    call: ({ listings }, input) => listings.create(input),
  }),
  list: list({
    description: "list listings, newest first",
    input: {
      userId: userFilter("listings in scope of this user's keys"),
      search: searchOption("title, city or external id"),
    },
    call: ({ listings }, input) => listings.listAll(input),
    columns: ["id", "externalId", "title", "city", "active", "maxPeopleInListing", "createdAt"],
    none: "There are no listings.",
  }),
  show: command({
    description: "show a listing, by id or external id",
    input: { listing: { ...argument("<listing>", TEXT), notFound: NO_LISTING } },
    examples: ["guest-forms listings show loft-1"],
    call: ({ listings }, input) => listings.find(input),
  }),
  update: command({
    description: "change the given properties of a listing, by id or external id; its forms do not change",
    input: {
      id: LISTING_ID,
      ...placeOptions(option),
      district: option("--district <text>", 'district; "" for none', orNone(TEXT, [""])),
      maxPeopleInListing: option(
        "--max-people <number>",
        "maximum number of guests per form, or none for no limit",
        orNone(WHOLE_NUMBER),
      ),
      maxVehicles: option(
        "--max-vehicles <number>",
        "maximum number of vehicles per form, or none for no limit",
        orNone(WHOLE_NUMBER),
      ),
      allowPets: option(
        "--allow-pets <answer>",
        "whether pets are allowed; none: not specified",
        named({ true: true, false: false, none: null }),
      ),
      language: option("--language <tag>", `${LANGUAGE}; "" or none for none`, orNone(TEXT, ["", "none"])),
      active: option("--active <answer>", "whether it accepts new forms", TRUE_OR_FALSE),
    },
    examples: ["guest-forms listings update 3f6b1c1e-2f53-4c0e-8f6a-51b6a3f0d7aa --max-people 5 --allow-pets none"],
    noOption: "Give at least one option to change.",
    call: ({ listings }, input) => listings.update(input),
  }),
  deactivate: command({
    description: "stop accepting new forms on a listing, by id or external id",
    input: { id: LISTING_ID },
    call: ({ listings }, input) => listings.deactivate(input),
  }),
});
