import { ExternalServer } from "../support/external-server.js";
import { freePort } from "../support/network.js";

interface Sample {
  metric: Record<string, string>;
  /** Unix time and value. */
  value: [number, string];
}

interface Alert {
  labels: Record<string, string>;
  annotations: Record<string, string>;
  state: "pending" | "firing";
}

export interface Prometheus {
  /** Returns the current samples of a PromQL expression. */
  query(expr: string): Promise<Sample[]>;
  /** Pending and firing alerts. */
  alerts(): Promise<Alert[]>;
}

/** Starts Prometheus on a free port with the `prometheus.yml` of this folder. It is killed after the test file. */
export async function startPrometheus(binary: string, folder: string): Promise<Prometheus> {
  const port = await freePort();
  const server = new ExternalServer(
    binary,
    [
      `--config.file=${folder}/prometheus.yml`,
      `--storage.tsdb.path=${folder}/data`,
      `--web.listen-address=127.0.0.1:${port}`,
    ],
    port,
  );
  await server.start();
  const get = async <Data>(path: string): Promise<Data> => {
    const response = await fetch(`http://127.0.0.1:${port}/api/v1/${path}`);
    const { status, error, data } = (await response.json()) as { status: string; error?: string; data: Data };
    if (status !== "success") throw new Error(`${path}: ${error}`);
    return data;
  };
  return {
    query: async (expr) =>
      (await get<{ result: Sample[] }>(`query?query=${encodeURIComponent(expr)}`)).result,
    alerts: async () => (await get<{ alerts: Alert[] }>("alerts")).alerts,
  };
}
