import { operatingBlock } from "../support/operating-page.js";

// All code of "Fail over to a standby" in gateway/docs/operating.md, in its order.
export const ACCESS_RULES = operatingBlock("host  replication");
export const SETTINGS = operatingBlock("wal_retrieve_retry_interval");
export const ROLES_AND_CHECK = operatingBlock("CREATE FUNCTION can_commit()");
export const COPY_PRIMARY = operatingBlock("--write-recovery-conf");
export const MAKE_SYNCHRONOUS = operatingBlock("synchronous_standby_names = 'standby'");
export const PROMOTE = operatingBlock("SELECT pg_promote()");
export const DELETE_DATA = operatingBlock("rm -rf");
export const CONTINUE_WITHOUT_STANDBY = operatingBlock("SET synchronous_standby_names = ''");
