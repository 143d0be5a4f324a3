import { type Command, Option } from "commander";
import { notes } from "./help.js";
import { formatPage, type PageOptions, withPages } from "./pages.js";
import { formatRecord, formatTable } from "./print.js";
import { addDataCommand, callCore } from "./run.js";
import { type NumberOrNone, noneToNull, parseWholeNumber, parseWholeNumberOrNone } from "./values.js";

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

export function addListings(program: Command): void {
  const listings = program.command("listings").description("rental properties");
  addCreate(listings);
  addList(listings);
  addShow(listings);
  addUpdate(listings);
  addDeactivate(listings);
}

function addCreate(listings: Command): void {
  addDataCommand(listings, "create")
    .description("create a listing and make a user its owner")
    .requiredOption("--owner <user>", "owner: id or email address of a user (required)")
    .requiredOption("--title <text>", "title, at most 200 characters (required)")
    .requiredOption("--address <text>", "street and number, at most 500 characters (required)")
    .requiredOption("--city <text>", "city (required)")
    .requiredOption("--country <text>", "country (required)")
    .requiredOption("--zip-code <text>", "postal code, at most 20 characters (required)")
    .requiredOption("--timezone <name>", "IANA time zone, such as Europe/Berlin (required)")
    .option("--district <text>", "district (default: none)")
    .option(
      "--max-people <number>",
      "maximum number of guests per form, at least 1 (default: no limit)",
      parseWholeNumber,
    )
    .option(
      "--max-vehicles <number>",
      "maximum number of vehicles per form (default: no limit)",
      parseWholeNumber,
    )
    .addOption(
      new Option("--allow-pets <answer>", "whether pets are allowed (default: not specified)").choices([
        "true",
        "false",
      ]),
    )
    .option("--inactive", "accept no new forms (default: active)")
    .addHelpText(
      "after",
      notes(`
Example:
  guest-forms listings create --owner host@example.com --title "Loft by the canal" \\
    --address "Kanalweg 7" --city Berlin --country Germany --zip-code 10997 --timezone Europe/Berlin --max-people 4`),
    )
    .action((options: CreateOptions, command: Command) =>
      callCore(command, {
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
        text: formatRecord,
        options: { maxPeopleInListing: "--max-people" },
      }),
    );
}

function addList(listings: Command): void {
  withPages(addDataCommand(listings, "list"))
    .description("list listings, newest first")
    .option(
      "--user <user>",
      "only listings in scope of this user's keys; an id or email address (default: all)",
    )
    .action(({ user, limit, after }: PageOptions & { user?: string }, command: Command) =>
      callCore(command, {
        call: async (core, findUser) =>
          core.listings.listAll({ userId: user && (await findUser("--user", user)), limit, cursor: after }),
        text: (page) =>
          formatPage(
            formatTable(
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
  addDataCommand(listings, "show <id>")
    .description("show a listing")
    .action((id: string, _options: object, command: Command) =>
      callCore(command, {
        call: (core) => core.listings.getAny({ id }),
        text: formatRecord,
        notFound: NO_LISTING,
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
  addDataCommand(listings, "update <id>")
    .description("change the given properties of a listing; its forms do not change")
    .option("--title <text>", "title, at most 200 characters")
    .option("--address <text>", "street and number, at most 500 characters")
    .option("--city <text>", "city")
    .option("--country <text>", "country")
    .option("--zip-code <text>", "postal code, at most 20 characters")
    .option("--timezone <name>", "IANA time zone, such as Europe/Berlin")
    .option("--district <text>", 'district; "" for none')
    .option(
      "--max-people <number>",
      "maximum number of guests per form, or none for no limit",
      parseWholeNumberOrNone,
    )
    .option(
      "--max-vehicles <number>",
      "maximum number of vehicles per form, or none for no limit",
      parseWholeNumberOrNone,
    )
    .addOption(
      new Option("--allow-pets <answer>", "whether pets are allowed; none: not specified").choices(
        Object.keys(ANSWERS),
      ),
    )
    .addOption(new Option("--active <answer>", "whether it accepts new forms").choices(["true", "false"]))
    .addHelpText(
      "after",
      notes(`
Example:
  guest-forms listings update 3f6b1c1e-2f53-4c0e-8f6a-51b6a3f0d7aa --max-people 5 --allow-pets none`),
    )
    .action((id: string, options: UpdateOptions, command: Command) =>
      callCore(command, {
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
            maxPeopleInListing: noneToNull(options.maxPeople),
            maxVehicles: noneToNull(options.maxVehicles),
            allowPets: options.allowPets && ANSWERS[options.allowPets],
            active: options.active && ANSWERS[options.active],
          }),
        text: formatRecord,
        options: { maxPeopleInListing: "--max-people" },
        notFound: NO_LISTING,
      }),
    );
}

function addDeactivate(listings: Command): void {
  addDataCommand(listings, "deactivate <id>")
    .description("stop accepting new forms on a listing")
    .action((id: string, _options: object, command: Command) =>
      callCore(command, {
        call: (core) => core.listings.deactivate({ id }),
        text: formatRecord,
        notFound: NO_LISTING,
      }),
    );
}
