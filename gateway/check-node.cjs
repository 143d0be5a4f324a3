// Exits with a clear message on unsupported Node.js versions. Uses old syntax so that those versions can parse it.
"use strict";

/** Minimum minor version per major version, as in `engines` of package.json. */
var MIN_MINOR = { 20: 19, 22: 12 };
var MIN_MAJOR = 24;

var version = process.versions.node.split(".");
var major = Number(version[0]);
if (major < MIN_MAJOR && !(Number(version[1]) >= MIN_MINOR[major])) {
  console.error(
    "guest-forms needs Node.js 24 or later, 22 from 22.12, or 20 from 20.19, but this is " +
      process.version +
      ": install Node.js 24 from https://nodejs.org.",
  );
  process.exit(1);
}
