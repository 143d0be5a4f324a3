import { expect, it } from "vitest";
import { examine } from "../../gateway/doctor/examine.js";
import { readSettings } from "../../server/config.js";
import { describeWithBinary } from "../support/describe-with-binary.js";
import { createRedis } from "../support/external-server.js";
import { freePort } from "../support/network.js";

describeWithBinary("redis-server", "doctor", (binary) => {
  it("reports whether Redis responds", async () => {
    const redis = createRedis(binary, await freePort());
    const env = { REDIS_URL: `redis://127.0.0.1:${redis.port}` };
    const checkRedis = async () => {
      const reports = await examine({ settings: readSettings(env), env, processes: 1, worker: true });
      return reports.find(({ name }) => name === "redis");
    };
    expect(await checkRedis()).toMatchObject({ status: "failed" });
    await redis.start();
    expect(await checkRedis()).toEqual({
      name: "redis",
      status: "ok",
      message: `Redis at 127.0.0.1:${redis.port} answers.`,
    });
  });
});
