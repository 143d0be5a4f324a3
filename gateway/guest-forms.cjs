#!/usr/bin/env node
"use strict";
// The `guest-forms` command.
require("./check-node.cjs");
import("../dist/gateway/cli.js");
