import { makeWorld, type World } from "../fleet/fleet.js";

// What is proved here is that nothing is lost or done twice, also by a machine that has much other work.
const PATIENCE = {
  DATABASE_CONNECT_TIMEOUT_MS: "10000",
  DATABASE_STATEMENT_TIMEOUT_MS: "10000",
  DATABASE_LOCK_TIMEOUT_MS: "9000",
};

/** A world whose processes give a busy database more time than they usually would. */
export async function makePatientWorld(): Promise<World> {
  const world = await makeWorld();
  return { ...world, env: { ...world.env, ...PATIENCE } };
}
