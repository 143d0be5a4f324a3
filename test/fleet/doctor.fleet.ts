import { expect, it } from "vitest";
import { examine } from "../../gateway/doctor/examine.js";
import { readSettings } from "../../server/config.js";
import { freePort } from "../harness.js";
import { describeWith } from "./binaries.js";
import { redisServer } from "./servers.js";

describeWith("redis-server", "doctor", (binary) => {
  it("says whether Redis answers", async () => {
    const redis = redisServer(binary, await freePort());
    const env = { REDIS_URL: `redis://127.0.0.1:${redis.port}` };
    const look = async () => {
      const reports = await examine({ settings: readSettings(env), env, processes: 1, worker: true });
      return reports.find(({ name }) => name === "redis");
    };
    expect(await look()).toMatchObject({ status: "failed" });
    await redis.start();
    expect(await look()).toEqual({
      name: "redis",
      status: "ok",
      message: `Redis at 127.0.0.1:${redis.port} answers.`,
    });
  });
});
