import { join } from "node:path";
import { expect, test } from "vitest";
import { describeWithBinary } from "../support/describe-with-binary.js";
import { type Load, sendRequest, startLoad } from "../support/http-client.js";
import { AS_POSTGRES, InstalledPostgres } from "../support/installed-postgres.js";
import { runScript } from "../support/operating-page.js";
import { uniqueStay } from "../support/stays.js";
import { BackedUpService } from "./backed-up-service.js";
import { changeAfterBackup, checkRestoredService, prepareState } from "./restore-checks.js";

describeWithBinary("postgres:postgresql-15", "a dump that is taken while forms are created", (binary) => {
  test("restores every form, replay and cursor of its moment, and erasures are repeated before the service starts", async () => {
    const postgres = await InstalledPostgres.start(binary);
    await runScript(`mkdir ${join(postgres.folder, "backups")}`, { commandPrefix: AS_POSTGRES });
    const service = await BackedUpService.start(postgres);
    const state = await prepareState(service);
    const busy = service.holders[3] ?? expect.fail();

    const load = startLoad(2, () =>
      sendRequest(`${service.url}/v1/forms`, busy.key, {
        method: "POST",
        body: uniqueStay(busy.listingIds[0] ?? ""),
      }),
    );
    await expect.poll(() => load.responses.length).toBeGreaterThan(20);
    const before = createdIds(load);
    await service.runBlock("pg_dump");
    const during = createdIds(load);
    await load.stop();
    expect(load.errors).toEqual([]);
    expect(during.length).toBeGreaterThan(before.length);

    const lost = await changeAfterBackup(service, state);
    await service.stop();
    await service.runBlock("createdb");
    service.databaseUrl = postgres.url("guest_forms", "guest_forms_restored");
    await service.runBlock("pg_restore", { edit: (block) => service.withBackup(block, "guest_forms") });
    await checkRestoredService(service, state, lost);

    const pages = await service.readLists([busy]);
    const restored = new Set(
      pages
        .filter(({ path }) => path.startsWith("/v1/forms "))
        .flatMap(({ json }) => json.items.map(({ id }) => id)),
    );
    expect(before.filter((id) => !restored.has(id))).toEqual([]);
    expect([...restored].filter((id) => !createdIds(load).includes(id))).toEqual([]);
    console.log(
      `${state.creates.length} forms, and ${restored.size} of ${createdIds(load).length} created during the dump`,
    );
  });
});

const createdIds = ({ responses }: Load) => responses.map(({ json }) => (json as { id: string }).id);
