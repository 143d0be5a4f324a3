import { expect, test } from "vitest";
import { nearest } from "../../gateway/commands/nearest.js";

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
  expect(nearest(word, COMMANDS)).toBe(meant);
});

test.each(["nope", "pople-s", "set-", "us", "", "lost-and-found"])("%j is near to nothing", (word) => {
  expect(nearest(word, COMMANDS)).toBeUndefined();
});
