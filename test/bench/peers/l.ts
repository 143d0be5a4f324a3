// Peer L: the minimal server as it is.
import { listen } from "./l-app.js";

await listen();
