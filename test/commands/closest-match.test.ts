import { expect, test } from "vitest";
import { closestMatch } from "../../gateway/commands/closest-match.js";

const COMMANDS = ["users", "people", "notifications", "set-status", "set-party", "list"];

test.each([
  ["lst", "list"],
  ["lits", "list"],
  ["LIST", "list"],
  ["usrs", "users"],
  ["notifcation", "notifications"],
  ["notif", "notifications"],
  ["set-satuts", "set-status"],
])("%s was meant to be %s", (word, meant) => {
  expect(closestMatch(word, COMMANDS)).toBe(meant);
});

test.each(["nope", "pople-s", "set-", "us", "", "lost-and-found"])("%j is near to nothing", (word) => {
  expect(closestMatch(word, COMMANDS)).toBeUndefined();
});
