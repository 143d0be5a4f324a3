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
])("the closest match of %s is %s", (word, expected) => {
  expect(closestMatch(word, COMMANDS)).toBe(expected);
});

test.each(["nope", "pople-s", "set-", "us", "", "lost-and-found"])("%j has no closest match", (word) => {
  expect(closestMatch(word, COMMANDS)).toBeUndefined();
});
