import { join } from "node:path";
import { expect, test } from "vitest";
import { describeWithBinary } from "../support/describe-with-binary.js";
import { AS_POSTGRES, InstalledPostgres } from "../support/installed-postgres.js";
import { operatingBlock, runScript } from "../support/operating-page.js";
import { runSql } from "../support/run-sql.js";
import { BackedUpService } from "./backed-up-service.js";
import { type Create, createForm } from "./guest-data.js";
import {
  changeAfterBackup,
  checkRestoredService,
  prepareState,
  type StateAtBackup,
} from "./restore-checks.js";

const EXAMPLE_TARGET = "recovery_target_time = '2026-11-21 10:15:30+00'";

describeWithBinary("postgres:postgresql-15", "a base backup with the archived write-ahead log", (binary) => {
  let postgres: InstalledPostgres;
  let service: BackedUpService;
  let state: StateAtBackup;
  let afterName: Create;

  test("restores what was acknowledged before a time between two creates, and nothing later; erasures are repeated", async () => {
    postgres = await InstalledPostgres.start(binary, (folder) =>
      operatingBlock("archive_command").replaceAll("/var/backups", join(folder, "backups")),
    );
    await runScript(`mkdir -p ${join(postgres.folder, "backups/wal")}`, { commandPrefix: AS_POSTGRES });
    service = await BackedUpService.start(postgres);
    await service.addForms();
    await service.runBlock("pg_basebackup --checkpoint=fast --pgdata=");

    state = await prepareState(service);
    const named = await service.readLists(service.holders.slice(0, 3));
    expect(named).toEqual(state.pages);
    await service.runInline("pg_create_restore_point");
    afterName = await addForm();
    state = { ...state, creates: [...state.creates, afterName], pages: await readLists() };
    const [{ now } = { now: "" }] = await runSql<{ now: string }>(
      postgres.url(),
      "SELECT clock_timestamp()::text AS now",
    );
    const lost = await changeAfterBackup(service, state);

    await service.stop();
    await restoreTo("restored", `recovery_target_time = '${now}'`);
    await checkRestoredService(service, state, lost);
  });

  test("restores the moment of a named restore point", async () => {
    await service.stop();
    await restoreTo("restored-to-name", "recovery_target_name = 'before_upgrade'");
    await service.startGateway();
    const ids = (await readLists()).flatMap(({ json }) => json.items.map(({ id }) => id));
    for (const { form } of state.creates.filter((create) => create !== afterName))
      expect(ids).toContain(form.id);
    expect(ids).not.toContain(afterName.form.id);
  });

  const readLists = () => service.readLists(service.holders.slice(0, 3));

  const addForm = () => {
    const [{ key, listingIds } = { key: "", listingIds: [""] }] = service.holders;
    return createForm(service.url, key, listingIds[0] ?? "", null);
  };

  /** Stops the old server, and starts a restored one in this folder, on the same port. */
  async function restoreTo(name: string, target: string): Promise<void> {
    const inFolder = (block: string) =>
      block.replaceAll("/var/lib/postgresql/restored", `/var/lib/postgresql/${name}`);
    await service.runBlock("pg_switch_wal");
    await postgres.stop();
    expect(operatingBlock("recovery.signal")).toContain(EXAMPLE_TARGET);
    await service.runBlock("recovery.signal", {
      edit: (block) => service.withBackup(inFolder(block.replace(EXAMPLE_TARGET, target)), "base"),
    });
    postgres.dataDir = join(postgres.folder, name);
    await service.runBlock("restored.log", { edit: inFolder });
    await expect
      .poll(() => runSql(postgres.url(), "SELECT pg_is_in_recovery() AS waits"), { interval: 100 })
      .toEqual([{ waits: false }]);
  }
});
