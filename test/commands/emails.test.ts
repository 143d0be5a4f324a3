import { mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { makeForm, makeListing, makeUser, openTestServices } from "../support/factories.js";
import { mailEnv, openMailServer } from "../support/mail-server.js";
import { runCli } from "../support/processes.js";
import { commandsWith, runInProcess } from "../support/run-in-process.js";
import { makeTempFolder } from "../support/run-tool.js";

const LANGUAGES = ["de", "en", "es", "fr", "it", "nl", "pt"];
const folder = await makeTempFolder("emails");
const badTemplates = join(folder, "bad");
await mkdir(badTemplates);
await writeFile(join(badTemplates, "invitation.de.txt"), "Hallo\n{{ linc }}");

/** Without a database. */
const { text, json, failure } = commandsWith({});

describe("emails preview", () => {
  test("writes an example in each language as HTML and text, without a database, that only its owner can read", async () => {
    const printed = await text("emails", "preview");
    const [, path = ""] = /^de {2}(\S+)\/preview\.de\.html\n/.exec(printed) ?? [];
    expect((await readdir(path)).sort()).toEqual(
      LANGUAGES.flatMap((each) => [`preview.${each}.html`, `preview.${each}.txt`]),
    );
    expect(await readFile(join(path, "preview.nl.txt"), "utf8")).toMatch(
      /^Subject: Gastregistratie invullen: Loft by the canal\n\nBeste gast,/,
    );
    expect(await readFile(join(path, "preview.nl.html"), "utf8")).toMatch(/^<!doctype html>\n<html lang="nl">/);
    expect((await stat(join(path, "preview.nl.html"))).mode & 0o777).toBe(0o600);
  });

  test("writes one language to a folder, with the settings, and can be repeated", async () => {
    const output = join(folder, "new/previews");
    const env = { EMAIL_SENDER_NAME: "Seaside Stays" };
    for (const round of [1, 2]) {
      const { stdout, code } = await runInProcess(
        ["emails", "preview", "--language", "FR", "--output", output, "--json"],
        env,
      );
      expect([round, code]).toEqual([round, 0]);
      const [html, plain] = [join(output, "preview.fr.html"), join(output, "preview.fr.txt")];
      const subject = "Enregistrement à compléter\u00a0: Loft by the canal";
      expect(JSON.parse(stdout)).toEqual({ previews: [{ language: "fr", subject, html, text: plain }] });
      expect(await readFile(plain, "utf8")).toContain("Envoyé par Seaside Stays");
    }
    expect(await readdir(output)).toHaveLength(2);
  });

  test("writes the invitation of a form, by its link, in the listing's language or another", async () => {
    const services = await openTestServices();
    const { id: userId } = await makeUser(services, { name: "Ada Host" });
    const listing = await makeListing(services, userId, { title: "Casa da praia", language: "pt" });
    const form = await makeForm(services, userId, listing.id, {});
    const commands = commandsWith({ DATABASE_URL: services.db.url });
    const output = join(folder, "form");
    const link = `https://a.example/${form.publicId}`;
    await commands.text("emails", "preview", "--form", link, "--output", output);
    const written = await readFile(join(output, "preview.pt.txt"), "utf8");
    expect(written).toMatch(
      /^Subject: Registo por preencher: Casa da praia\n\nOlá,\n\nEm nome do alojamento «Casa da praia», Ada Host pede-lhe/,
    );
    expect(written).toContain(`https://your-app.example.com/register/${form.publicId}\n`);
    await commands.text("emails", "preview", "--form", form.id, "--language", "en", "--output", output);
    expect(await readFile(join(output, "preview.en.txt"), "utf8")).toContain("Your host, Ada Host, asks you");
    const unknown = await commands.failure("emails", "preview", "--form", services.settings.PORT.toString());
    expect(unknown).toEqual([1, "There is no form with this id, external id, public id or link."]);
  });
});

test("emails preview --sparse writes the example without what may be missing, named by the given tag", async () => {
  const output = join(folder, "sparse");
  await text("emails", "preview", "--sparse", "--language", "en-us", "--output", output);
  const written = await readFile(join(output, "preview.en-US.txt"), "utf8");
  expect(written).toContain("Your host asks you");
  expect(written).not.toMatch(/Anna|Check-in|Guests/);
});

describe("emails templates", () => {
  test("writes the templates in use, which EMAIL_TEMPLATES accepts, and overwrites none", async () => {
    const output = join(folder, "templates");
    const names = ["html", "subject.txt", "txt"].map((part) => `invitation.de.${part}`);
    expect(await json("emails", "templates", "--language", "de", "--output", output)).toEqual({
      files: expect.arrayContaining(names.map((name) => join(output, name))),
    });
    expect((await readdir(output)).sort()).toEqual(names);
    await writeFile(join(output, "invitation.de.subject.txt"), "Willkommen in {{ listing.city }}");
    const { stdout } = await runInProcess(["emails", "preview", "--language", "de", "--output", folder, "--json"], {
      EMAIL_TEMPLATES: output,
    });
    expect(JSON.parse(stdout).previews[0].subject).toBe("Willkommen in Berlin");
    const [code, message] = await failure("emails", "templates", "--language", "de", "--output", output);
    expect([code, message]).toEqual([
      1,
      expect.stringMatching(/subject\.txt exists already, and nothing was written\. Choose another --output\.$/),
    ]);
    expect(await readFile(join(output, "invitation.de.subject.txt"), "utf8")).toBe("Willkommen in {{ listing.city }}");
  });
});

test("emails templates for a region writes the files of that region", async () => {
  const output = join(folder, "brazil");
  await text("emails", "templates", "--language", "pt-br", "--output", output);
  expect((await readdir(output)).sort()).toEqual(
    ["html", "subject.txt", "txt"].map((part) => `invitation.pt-BR.${part}`),
  );
});

describe("emails test", () => {
  test("sends an example to an address, in a language, as guests get it", async () => {
    const mailServer = await openMailServer();
    const { json } = commandsWith({ ...mailEnv(mailServer.url), EMAIL_REPLY_TO_OWNER: "true" });
    const { reply, ...sent } = await json("emails", "test", "--to", "me@example.com", "--language", "it");
    expect(reply).toBe("250 OK: message queued");
    expect(sent).toEqual({
      messageId: expect.stringMatching(/^<form-[\da-f-]{36}@example\.com>$/),
      subject: "Registrazione da completare: Loft by the canal",
    });
    expect(mailServer.received).toMatchObject([
      { to: ["me@example.com"], mail: { ...sent, replyTo: [{ name: "Anna Berger", address: "me@example.com" }] } },
    ]);
  });

  test("says why the mail server rejected it", async () => {
    const mailServer = await openMailServer();
    mailServer.rcptErrors.push({ code: 550, text: "no such mailbox" });
    const { failure } = commandsWith(mailEnv(mailServer.url));
    const [code, message] = await failure("emails", "test", "--to", "me@example.com");
    expect([code, message]).toEqual([1, expect.stringMatching(/^The mail server did not take it: .*no such mailbox/)]);
  });
});

test.each([
  [
    ["preview", "--language", "sv"],
    2,
    "--language: must be one of de, en, es, fr, it, nl, pt, in which there are templates",
  ],
  [
    ["templates", "--language", "xx", "--output", folder],
    2,
    "--language: must be one of de, en, es, fr, it, nl, pt, in which there are templates",
  ],
  [["test", "--to", "me@example.com"], 1, "SMTP_URL is not set: set it to the URL of your mail server."],
  [["test", "--to", "me"], 2, "--to: must be an email address"],
])("emails %s is rejected with a line that says why", async (args, code, message) => {
  expect(await failure("emails", ...args)).toEqual([code, message]);
});

test.each([[["worker"]], [["serve", "--port", "0"]]])(
  "%s does not start with a template that has a fault, and names its file and line",
  async (args) => {
    const services = await openTestServices();
    const env = { DATABASE_URL: services.db.url, EMAIL_TEMPLATES: badTemplates };
    const { code, stdout, stderr } = await runCli(args, { env });
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(
      /^error: .*bad\/invitation\.de\.txt:2:4: there is no variable linc\. There are language, link, /m,
    );
    expect(stderr).not.toContain("listening");
  },
);

test("doctor reports a template that has a fault", async () => {
  const services = await openTestServices();
  const { stdout, code } = await runInProcess(["doctor", "--json"], {
    DATABASE_URL: services.db.url,
    EMAIL_TEMPLATES: badTemplates,
  });
  const { checks } = JSON.parse(stdout);
  expect(code).toBe(0);
  expect(checks).toContainEqual({
    name: "email templates",
    status: "failed",
    message: expect.stringContaining("invitation.de.txt:2:4: there is no variable linc"),
  });
});
