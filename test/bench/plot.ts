import type { Figures } from "./measure.js";

const WIDTH = 640;
const HEIGHT = 300;
const LEFT = 60;
const TOP = 60;
const [TOTAL_WIDTH, TOTAL_HEIGHT] = [LEFT + WIDTH + 30, TOP + HEIGHT + 55];

const STYLES = {
  service: { title: "this service", light: "#0969da", dark: "#58a6ff" },
  "L+": { title: "L+: Fastify and pg", light: "#1a7f37", dark: "#3fb950" },
  T: { title: "T: Express and Prisma", light: "#bc4c00", dark: "#f0883e" },
};

/** Latency and requests per second of each server, for each number of connections. */
export type Curves = Record<keyof typeof STYLES, Figures[]>;

/** Draws median and 99th percentile against requests per second as an SVG for light and dark pages. */
export function drawLatency(curves: Curves): string {
  const all = Object.values(curves).flat();
  const x = logarithmicScale(
    all.map(({ requestsPerSecond }) => requestsPerSecond),
    LEFT,
    LEFT + WIDTH,
  );
  const y = logarithmicScale(
    all.flatMap(({ p50, p99 }) => [p50 / 1000, p99 / 1000]),
    TOP + HEIGHT,
    TOP,
  );
  const lines = Object.entries(STYLES).flatMap(([name, { title }], index) => {
    const figures = curves[name as keyof Curves];
    const color = `c${index}`;
    const lineOf = (latency: "p50" | "p99") => {
      const points = figures.map((own) => `${x.at(own.requestsPerSecond)},${y.at(own[latency] / 1000)}`);
      return `<polyline class="${color} ${latency}" points="${points.join(" ")}"/>`;
    };
    const left = LEFT + index * 190;
    return [
      lineOf("p99"),
      lineOf("p50"),
      `<line class="${color}" x1="${left}" x2="${left + 22}" y1="16" y2="16"/>`,
      `<text x="${left + 28}" y="20">${title}</text>`,
    ];
  });
  const grid = [
    ...y.ticks.map(
      (tick) => `<line class="grid" x1="${LEFT}" x2="${LEFT + WIDTH}" y1="${y.at(tick)}" y2="${y.at(tick)}"/>
<text x="${LEFT - 6}" y="${y.at(tick)}" dy="4" text-anchor="end">${format(tick)}</text>`,
    ),
    ...x.ticks.map(
      (tick) => `<line class="grid" x1="${x.at(tick)}" x2="${x.at(tick)}" y1="${TOP}" y2="${TOP + HEIGHT}"/>
<text x="${x.at(tick)}" y="${TOP + HEIGHT + 18}" text-anchor="middle">${format(tick)}</text>`,
    ),
  ];
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${TOTAL_WIDTH} ${TOTAL_HEIGHT}" role="img" aria-label="Latency against requests per second of three servers">
<style>
text { font: 12px system-ui, "DejaVu Sans", sans-serif; fill: #1f2328 }
line, polyline { fill: none; stroke-width: 2 }
line.grid { stroke: #d0d7de; stroke-width: 1 }
.p99 { stroke-dasharray: 4 3 }
.paper { fill: #ffffff }
${colors("light")}
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } line.grid { stroke: #30363d } .paper { fill: #0d1117 }
${colors("dark")}
}
</style>
<rect class="paper" width="${TOTAL_WIDTH}" height="${TOTAL_HEIGHT}" rx="6"/>
<text x="${LEFT}" y="44">latency in ms: median, and 99th percentile dashed</text>
${grid.join("\n")}
<text x="${LEFT + WIDTH}" y="${TOP + HEIGHT + 42}" text-anchor="end">requests/s</text>
${lines.join("\n")}
</svg>
`;
}

const colors = (mode: "light" | "dark") =>
  Object.values(STYLES)
    .map((style, index) => `.c${index} { stroke: ${style[mode]} }`)
    .join(" ");

const format = (value: number) => value.toLocaleString("en");

/** Maps values to coordinates. The ticks are 1, 2 and 5 times powers of ten. */
function logarithmicScale(values: number[], from: number, to: number) {
  const [low, high] = [Math.log10(Math.min(...values)), Math.log10(Math.max(...values))];
  const powers = Array.from({ length: 12 }, (_, index) => 10 ** (index - 3));
  return {
    ticks: powers
      .flatMap((power) => [power, 2 * power, 5 * power])
      .filter((tick) => Math.log10(tick) >= low && Math.log10(tick) <= high),
    at: (value: number) => (from + ((Math.log10(value) - low) / (high - low)) * (to - from)).toFixed(1),
  };
}
