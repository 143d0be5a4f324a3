import { Counter, Gauge, Histogram, type Registry } from "prom-client";

const PREFIX = "guest_forms_";
const BUCKETS_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];

/** Creates metrics of the service in a registry: a name without the prefix, its help, and the name of its label if it has any. */
export function metricsOf(registry: Registry) {
  const about = (name: string, help: string, ...labelNames: string[]) => ({
    name: `${PREFIX}${name}`,
    help,
    labelNames,
    registers: [registry],
  });
  return {
    counter: (...options: Parameters<typeof about>) => new Counter(about(...options)),
    gauge: (...options: Parameters<typeof about>) => new Gauge(about(...options)),
    seconds: (...options: Parameters<typeof about>) =>
      new Histogram({ ...about(...options), buckets: BUCKETS_SECONDS }),
    /** A gauge that is read when it is scraped: one value, or one for each value of the label. */
    watch: (name: string, help: string, read: () => number | Record<string, number>, label = "") =>
      new Gauge({
        ...about(name, help, ...(label ? [label] : [])),
        collect() {
          const value = read();
          if (typeof value === "number") this.set(value);
          else for (const [key, number] of Object.entries(value)) this.set({ [label]: key }, number);
        },
      }),
  };
}
