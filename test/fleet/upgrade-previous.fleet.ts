import { it } from "vitest";
import { describeWithBinary } from "../support/describe-with-binary.js";
import { drillUpgrade } from "./upgrade-drill.js";
import { buildPreviousVersion, currentVersion } from "./versions.js";

describeWithBinary("haproxy", "an upgrade from the previous version", () => {
  it("under load, and the way back, fail or delay no request, lose or double no form, and replay exactly", async () => {
    const from = await buildPreviousVersion();
    const known = await from.formFields();
    const newFields = (await currentVersion.formFields()).filter((name) => !known.includes(name));
    await drillUpgrade({ from, to: currentVersion, newFields });
  });
});
