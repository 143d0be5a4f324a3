import { type Command, InvalidArgumentError, Option } from "commander";
import type { Caller } from "../../server/caller.js";
import { addDataCommand, addListCommand, required, searchOption, USER_REFERENCE } from "../cli/data-command.js";
import { formatTable } from "../cli/print.js";
import { type NumberOrNone, noneToNull, parseWholeNumber, parseWholeNumberOrNone } from "../cli/values.js";

/** Options of create, where they are required, and of update. */
const PLACE = {
  "--title <text>": "title, at most 200 characters",
  "--address <text>": "street and number, at most 500 characters",
  "--city <text>": "city",
  "--country <text>": "country",
  "--zip-code <text>": "postal code, at most 20 characters",
  "--timezone <name>": "IANA time zone, such as Europe/Berlin",
};

type InputOf<Name extends "create" | "update"> = Parameters<Caller["listings"][Name]>[0];
type Renamed = "maxPeopleInListing" | "allowPets" | "active";

interface CreateOptions extends Omit<InputOf<"create">, Renamed | "ownerId"> {
  owner: string;
  maxPeople?: number;
  allowPets?: "true" | "false";
  inactive?: true;
}

interface UpdateOptions extends Omit<InputOf<"update">, Renamed | "maxVehicles" | "id"> {
  listing: string;
  maxPeople?: NumberOrNone;
  maxVehicles?: NumberOrNone;
  allowPets?: keyof typeof ANSWERS;
  active?: "true" | "false";
}

const ANSWERS = { true: true, false: false, none: null };
const OPTION_NAMES = { maxPeopleInListing: "--max-people", listing: "LISTING" };
const LANGUAGE = "language of the invitation to its guests, such as de or pt-BR";
const NO_LISTING = "There is no listing with this id or external id.";

export function addListings(program: Command): void {
  const listings = program.command("listings").description("rental properties");
  addDataCommand(listings, "create", {
    description: "create a listing and make a user its owner",
    options: [
      required("--owner <user>", `owner: ${USER_REFERENCE} of a user`),
      ...Object.entries(PLACE).map(([flags, description]) => required(flags, description)),
      new Option("--district <text>", "district (default: none)"),
      new Option(
        "--max-people <number>",
        "maximum number of guests per form, at least 1 (default: no limit)",
      ).argParser(parseWholeNumber),
      new Option("--max-vehicles <number>", "maximum number of vehicles per form (default: no limit)").argParser(
        parseWholeNumber,
      ),
      new Option("--allow-pets <answer>", "whether pets are allowed (default: not specified)").choices([
        "true",
        "false",
      ]),
      new Option("--language <tag>", `${LANGUAGE} (default: none)`),
      new Option("--inactive", "accept no new forms (default: active)"),
    ],
    help: `
Example:
  guest-forms listings create --owner host@example.com --title "Loft by the canal" \\
    --address "Kanalweg 7" --city Berlin --country Germany --zip-code 10997 --timezone Europe/Berlin --max-people 4`,
    call: async (core, { owner, maxPeople, allowPets, inactive, ...listing }: CreateOptions, { findUser }) =>
      core.listings.create({
        ...listing,
        ownerId: await findUser("--owner", owner),
        maxPeopleInListing: maxPeople,
        allowPets: allowPets && ANSWERS[allowPets],
        active: !inactive,
      }),
    optionNames: OPTION_NAMES,
  });
  addListCommand(listings, "list", {
    description: "list listings, newest first",
    options: [
      new Option("--user <user>", `only listings in scope of this user's keys; an ${USER_REFERENCE} (default: all)`),
      searchOption("title, city or external id"),
    ],
    call: async (core, { user, ...page }: { user?: string; search?: string }, { findUser }) =>
      core.listings.listAll({ ...page, userId: await findUser("--user", user) }),
    table: (items) =>
      formatTable(
        items,
        ["id", "externalId", "title", "city", "active", "maxPeopleInListing", "createdAt"],
        "There are no listings.",
      ),
  });
  addDataCommand(listings, "show <listing>", {
    description: "show a listing, by id or external id",
    help: "Example:\n  guest-forms listings show loft-1",
    call: (core, given: { listing: string }) => core.listings.find(given),
    optionNames: OPTION_NAMES,
    notFound: NO_LISTING,
  });
  addDataCommand(listings, "update <listing>", {
    description: "change the given properties of a listing, by id or external id; its forms do not change",
    options: [
      ...Object.entries(PLACE).map(([flags, description]) => new Option(flags, description)),
      new Option("--district <text>", 'district; "" for none'),
      new Option("--max-people <number>", "maximum number of guests per form, or none for no limit").argParser(
        parseWholeNumberOrNone,
      ),
      new Option("--max-vehicles <number>", "maximum number of vehicles per form, or none for no limit").argParser(
        parseWholeNumberOrNone,
      ),
      new Option("--allow-pets <answer>", "whether pets are allowed; none: not specified").choices(
        Object.keys(ANSWERS),
      ),
      new Option("--language <tag>", `${LANGUAGE}; "" or none for none`),
      new Option("--active <answer>", "whether it accepts new forms").choices(["true", "false"]),
    ],
    help: `
Example:
  guest-forms listings update 3f6b1c1e-2f53-4c0e-8f6a-51b6a3f0d7aa --max-people 5 --allow-pets none`,
    check({ listing: _listing, json: _json, ...changes }: UpdateOptions & { json?: true }) {
      if (Object.keys(changes).length === 0) throw new InvalidArgumentError("Give at least one option to change.");
    },
    call: async (
      core,
      { listing, district, maxPeople, maxVehicles, allowPets, language, active, ...place }: UpdateOptions,
    ) =>
      core.listings.update({
        ...place,
        id: (await core.listings.find({ listing })).id,
        district: district === "" ? null : district,
        maxPeopleInListing: noneToNull(maxPeople),
        maxVehicles: noneToNull(maxVehicles),
        allowPets: allowPets && ANSWERS[allowPets],
        language: language === "" ? null : noneToNull(language),
        active: active && ANSWERS[active],
      }),
    optionNames: OPTION_NAMES,
    notFound: NO_LISTING,
  });
  addDataCommand(listings, "deactivate <listing>", {
    description: "stop accepting new forms on a listing, by id or external id",
    call: async (core, given: { listing: string }) =>
      core.listings.deactivate({ id: (await core.listings.find(given)).id }),
    optionNames: OPTION_NAMES,
    notFound: NO_LISTING,
  });
}
