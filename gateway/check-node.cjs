// Ends with one sentence where Node.js is too old, before anything is loaded that fails there without one. In old syntax.
"use strict";

/** The least minor version of the versions that have one; the same as `engines` in package.json. */
var LEAST_MINOR = { 20: 19, 22: 12 };
var FROM = 24;

var version = process.versions.node.split(".");
var major = Number(version[0]);
if (major < FROM && !(Number(version[1]) >= LEAST_MINOR[major])) {
  console.error(
    "guest-forms needs Node.js 20.19, 22.12 or 24 or later, and this is " +
      process.version +
      ": install Node.js 24 from https://nodejs.org.",
  );
  process.exit(1);
}
