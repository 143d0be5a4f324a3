import { type Fixture, makeFixture } from "../fleet/gateway-processes.js";

const LONG_TIMEOUTS = {
  DATABASE_CONNECT_TIMEOUT_MS: "10000",
  DATABASE_STATEMENT_TIMEOUT_MS: "10000",
  DATABASE_LOCK_TIMEOUT_MS: "9000",
};

/** A fixture with long database timeouts, for tests of correctness on a busy machine. */
export async function makeLongTimeoutsFixture(): Promise<Fixture> {
  const fixture = await makeFixture();
  return { ...fixture, env: { ...fixture.env, ...LONG_TIMEOUTS } };
}
