import { type Command, Option } from "commander";
import { notes } from "./help.js";
import { type PageOptions, paged, withPages } from "./pages.js";
import { record, table } from "./print.js";
import { dataCommand, operate } from "./run.js";
import { type NumberOrNone, orNull, wholeNumber, wholeNumberOrNone } from "./values.js";

interface CreateOptions {
  owner: string;
  title: string;
  address: string;
  city: string;
  country: string;
  zipCode: string;
  timezone: string;
  district?: string;
  maxPeople?: number;
  maxVehicles?: number;
  allowPets?: "true" | "false";
  inactive?: true;
}

/** `listings create`, `listings list`, `listings show`, `listings update`, `listings deactivate`. */
export function addListings(program: Command): void {
  const listings = program.command("listings").description("the places that are let");
  addCreate(listings);
  addList(listings);
  addShow(listings);
  addUpdate(listings);
  addDeactivate(listings);
}

function addCreate(listings: Command): void {
  dataCommand(listings, "create")
    .description("make a listing, and its owner's membership")
    .requiredOption("--owner <user>", "id or e-mail address of the user who becomes its owner (required)")
    .requiredOption("--title <text>", "title, at most 200 characters (required)")
    .requiredOption("--address <text>", "street and number, at most 500 characters (required)")
    .requiredOption("--city <text>", "city (required)")
    .requiredOption("--country <text>", "country (required)")
    .requiredOption("--zip-code <text>", "postal code, at most 20 characters (required)")
    .requiredOption("--timezone <name>", "IANA time zone, such as Europe/Berlin (required)")
    .option("--district <text>", "district (default: none)")
    .option("--max-people <number>", "most guests of one form, at least 1 (default: no limit)", wholeNumber)
    .option("--max-vehicles <number>", "most vehicles of one form (default: no limit)", wholeNumber)
    .addOption(
      new Option("--allow-pets <answer>", "whether pets may come (default: not stated)").choices([
        "true",
        "false",
      ]),
    )
    .option("--inactive", "takes no new forms (default: active)")
    .addHelpText(
      "after",
      notes(`
Example:
  guest-forms listings create --owner host@example.com --title "Loft by the canal" \\
    --address "Kanalweg 7" --city Berlin --country Germany --zip-code 10997 --timezone Europe/Berlin --max-people 4`),
    )
    .action((options: CreateOptions, command: Command) =>
      operate(command, {
        call: async (core, findUser) =>
          core.listings.create({
            ownerId: await findUser("--owner", options.owner),
            title: options.title,
            address: options.address,
            city: options.city,
            country: options.country,
            zipCode: options.zipCode,
            timezone: options.timezone,
            district: options.district,
            maxPeopleInListing: options.maxPeople,
            maxVehicles: options.maxVehicles,
            allowPets: options.allowPets && options.allowPets === "true",
            active: !options.inactive,
          }),
        text: record,
        options: { maxPeopleInListing: "--max-people" },
      }),
    );
}

function addList(listings: Command): void {
  withPages(dataCommand(listings, "list"))
    .description("list listings, newest first")
    .option("--user <user>", "only those that this user's keys see; an id or e-mail address (default: all)")
    .action(({ user, limit, after }: PageOptions & { user?: string }, command: Command) =>
      operate(command, {
        call: async (core, findUser) =>
          core.listings.listAll({ userId: user && (await findUser("--user", user)), limit, cursor: after }),
        text: (page) =>
          paged(
            table(
              page.items,
              ["id", "title", "city", "active", "maxPeopleInListing", "createdAt"],
              "There are no listings.",
            ),
            page,
          ),
      }),
    );
}

function addShow(listings: Command): void {
  dataCommand(listings, "show <id>")
    .description("show a listing")
    .action((id: string, _options: object, command: Command) =>
      operate(command, {
        call: (core) => core.listings.getAny({ id }),
        text: record,
        missing: NO_LISTING,
      }),
    );
}

interface UpdateOptions {
  title?: string;
  address?: string;
  city?: string;
  country?: string;
  zipCode?: string;
  timezone?: string;
  district?: string;
  maxPeople?: NumberOrNone;
  maxVehicles?: NumberOrNone;
  allowPets?: "true" | "false" | "none";
  active?: "true" | "false";
}

const NO_LISTING = "There is no listing with this id.";
const ANSWERS = { true: true, false: false, none: null };

function addUpdate(listings: Command): void {
  dataCommand(listings, "update <id>")
    .description("change what is given of a listing; forms on it stay as they are")
    .option("--title <text>", "title, at most 200 characters")
    .option("--address <text>", "street and number, at most 500 characters")
    .option("--city <text>", "city")
    .option("--country <text>", "country")
    .option("--zip-code <text>", "postal code, at most 20 characters")
    .option("--timezone <name>", "IANA time zone, such as Europe/Berlin")
    .option("--district <text>", 'district; "" for none')
    .option("--max-people <number>", "most guests of one form, or none for no limit", wholeNumberOrNone)
    .option("--max-vehicles <number>", "most vehicles of one form, or none for no limit", wholeNumberOrNone)
    .addOption(
      new Option("--allow-pets <answer>", "whether pets may come; none: not stated").choices(
        Object.keys(ANSWERS),
      ),
    )
    .addOption(new Option("--active <answer>", "whether it takes new forms").choices(["true", "false"]))
    .addHelpText(
      "after",
      notes(`
Example:
  guest-forms listings update 3f6b1c1e-2f53-4c0e-8f6a-51b6a3f0d7aa --max-people 5 --allow-pets none`),
    )
    .action((id: string, options: UpdateOptions, command: Command) =>
      operate(command, {
        call: (core) =>
          core.listings.update({
            id,
            title: options.title,
            address: options.address,
            city: options.city,
            country: options.country,
            zipCode: options.zipCode,
            timezone: options.timezone,
            district: options.district === "" ? null : options.district,
            maxPeopleInListing: orNull(options.maxPeople),
            maxVehicles: orNull(options.maxVehicles),
            allowPets: options.allowPets && ANSWERS[options.allowPets],
            active: options.active && ANSWERS[options.active],
          }),
        text: record,
        options: { maxPeopleInListing: "--max-people" },
        missing: NO_LISTING,
      }),
    );
}

function addDeactivate(listings: Command): void {
  dataCommand(listings, "deactivate <id>")
    .description("let a listing take no new forms")
    .action((id: string, _options: object, command: Command) =>
      operate(command, {
        call: (core) => core.listings.deactivate({ id }),
        text: record,
        missing: NO_LISTING,
      }),
    );
}
