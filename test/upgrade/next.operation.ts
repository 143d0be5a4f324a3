import { expect, inject, it } from "vitest";
import { describeWithBinary } from "../support/describe-with-binary.js";
import { drillUpgrade } from "./drill.js";
import { buildNextVersion, currentVersion, NEW_FIELD } from "./versions.js";

describeWithBinary("haproxy", "an upgrade to a version with a new field and a new index", (haproxy) => {
  it("under load, and the way back, fail or delay no request, lose or double no form, and replay exactly", async () => {
    const to = await buildNextVersion(inject("serverUrl"));
    const drill = await drillUpgrade({ haproxy, from: currentVersion, to, ignoredField: NEW_FIELD });
    await drill.replaceBy(to);
    const path = `/v1/forms/${drill.traffic.creates[0]?.form?.id}`;
    const headers = { Authorization: `Bearer ${drill.holder.key}` };
    const form = await (await fetch(`${drill.fleet.url}${path}`, { headers })).json();
    expect(form).toMatchObject({ [NEW_FIELD]: null });
  });
});
