import { inject, it } from "vitest";
import { describeWithBinary } from "../support/describe-with-binary.js";
import { drillUpgrade } from "./upgrade-drill.js";
import { buildNextVersion, currentVersion, NEW_FIELD } from "./versions.js";

describeWithBinary("haproxy", "an upgrade to a version with a new field and a new index", () => {
  it("under load, and the way back, fail or delay no request, lose or double no form, and replay exactly", async () => {
    const to = await buildNextVersion(inject("serverUrl"));
    await drillUpgrade({ from: currentVersion, to, newFields: [NEW_FIELD] });
  });
});
