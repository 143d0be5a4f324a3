import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { signWebhook } from "../../sdk/src/webhooks.js";
import { webhookGuideSamples } from "../contract/samples.js";
import { findCommand } from "../support/describe-with-binary.js";
import { makeTempFolder } from "../support/run-tool.js";

const hasPython = findCommand("python3") !== undefined;

test.skipIf(!hasPython)(
  `verify in Python accepts what is signed, and nothing else${hasPython ? "" : ": SKIPPED because python3 is not installed"}`,
  async () => {
    const sample = webhookGuideSamples().find(({ name }) => name === "Verify without the SDK python 1");
    const folder = await makeTempFolder("webhook-verify");
    const program = `${sample?.source}
import json, sys
for case in json.load(sys.stdin):
    try:
        verify(case["body"].encode(), case["headers"], case["secret"])
        print("accepted")
    except ValueError as error:
        print(error)
`;
    await writeFile(join(folder, "verify.py"), program);
    const [secret, other] = ["whsec_c2VjcmV0IG9mIHRoZSBndWlkZQ==", "whsec_b3RoZXI="];
    const body = '{"type":"webhook.test","note":"Čajovna"}';
    const { headers } = await signWebhook(body, secret);
    const rotated = await signWebhook(body, [other, secret]);
    const old = await signWebhook(body, secret, { timestamp: new Date(Date.now() - 302_000) });
    const future = await signWebhook(body, secret, { timestamp: new Date(Date.now() + 330_000) });
    const cases = [
      { body, headers, secret },
      { ...rotated, secret },
      { body: `${body} `, headers, secret },
      { body, headers, secret: other },
      { body, headers: {}, secret },
      { ...old, secret },
      { ...future, secret },
    ];
    const running = promisify(execFile)("python3", [join(folder, "verify.py")]);
    running.child.stdin?.end(JSON.stringify(cases));
    const [wrong, late] = ["no signature matches", "sent too long ago, or in the future"];
    expect((await running).stdout.trim().split("\n")).toEqual([
      "accepted",
      "accepted",
      wrong,
      wrong,
      wrong,
      late,
      late,
    ]);
  },
);
