import type { Result } from "./measure.js";
import { SERVERS, type ServerName } from "./servers.js";

interface Panel {
  title: string;
  xLabel: string;
  points: { label: string; servers: Result["servers"] }[];
}

/** Draws latency by page depth and by scope size as an SVG for light and dark pages; undefined without such results. */
export function plot(results: readonly Result[], connections: number): string | undefined {
  const pages = results
    .filter(({ page }) => page !== undefined)
    .toSorted((a, b) => Number(a.page) - Number(b.page));
  const scopes = results.filter(({ scope }) => scope !== undefined);
  if (pages.length < 2 || scopes.length < 2) return undefined;
  const panels: Panel[] = [
    {
      title: "By page depth (10,000 listings in scope)",
      xLabel: "page",
      points: pages.map(({ page, servers }) => ({ label: formatNumber(page), servers })),
    },
    {
      title: "By scope size (first page)",
      xLabel: "listings in scope",
      points: scopes.map(({ id, scope, servers }) => ({
        label: id === "list-new" ? `${formatNumber(scope)} new` : formatNumber(scope),
        servers,
      })),
    },
  ];
  const axis = logarithmicAxis(panels);
  return svg([
    legend(connections),
    ...panels.map((panel, index) => draw(panel, axis, LEFT + index * (WIDTH + GAP))),
  ]);
}

const formatNumber = (value: number | undefined) => Number(value).toLocaleString("en");

const WIDTH = 350;
const HEIGHT = 240;
const LEFT = 70;
const TOP = 70;
const GAP = 65;
const [TOTAL_WIDTH, TOTAL_HEIGHT] = [LEFT + 2 * WIDTH + GAP + 25, TOP + HEIGHT + 60];

const NAMES: Record<ServerName, string> = {
  service: "this service",
  L: "L: Fastify and pg",
  T: "T: Express and Prisma",
};

/** A logarithmic axis: maps milliseconds to the y coordinate. `ticks` are powers of ten. */
interface Axis {
  y(milliseconds: number): number;
  ticks: number[];
}

function logarithmicAxis(panels: Panel[]): Axis {
  const values = panels.flatMap(({ points }) =>
    points.flatMap(({ servers }) => Object.values(servers).map(({ p50 }) => Math.log10(p50 / 1000))),
  );
  const [low, high] = [Math.floor(Math.min(...values)), Math.ceil(Math.max(...values))];
  return {
    y: (milliseconds) => TOP + HEIGHT * (1 - (Math.log10(milliseconds) - low) / (high - low)),
    ticks: Array.from({ length: high - low + 1 }, (_, index) => 10 ** (low + index)),
  };
}

function draw({ title, xLabel, points }: Panel, { y, ticks }: Axis, left: number): string {
  const x = (index: number) => left + 20 + (index * (WIDTH - 40)) / (points.length - 1);
  const grid = ticks.map(
    (tick) =>
      `<line class="grid" x1="${left}" x2="${left + WIDTH}" y1="${fixed(y(tick))}" y2="${fixed(y(tick))}"/>` +
      `<text x="${left - 6}" y="${fixed(y(tick) + 4)}" text-anchor="end">${formatNumber(tick)}</text>`,
  );
  const labels = points.map(
    ({ label }, index) =>
      `<text x="${fixed(x(index))}" y="${TOP + HEIGHT + 18}" text-anchor="middle">${label}</text>`,
  );
  const lines = SERVERS.map((name) => {
    const places = points.flatMap(({ servers }, index) => {
      const own = servers[name];
      return own && own.p50 > 0 ? [[fixed(x(index)), fixed(y(own.p50 / 1000))] as const] : [];
    });
    const dots = places.map(([cx, cy]) => `<circle class="dot ${name}" cx="${cx}" cy="${cy}" r="3.5"/>`);
    return `<polyline class="line ${name}" points="${places.map((place) => place.join(",")).join(" ")}"/>${dots.join("")}`;
  });
  return [
    `<text class="title" x="${left}" y="${TOP - 14}">${title}</text>`,
    ...grid,
    ...labels,
    `<text x="${left + WIDTH / 2}" y="${TOP + HEIGHT + 42}" text-anchor="middle">${xLabel}</text>`,
    ...lines.toReversed(),
  ].join("\n");
}

function legend(connections: number): string {
  let x = LEFT;
  const entries = SERVERS.map((name) => {
    const entry =
      `<line class="line ${name}" x1="${x}" x2="${x + 22}" y1="22" y2="22"/><circle class="dot ${name}" cx="${x + 11}" cy="22" r="3.5"/>` +
      `<text x="${x + 30}" y="26">${NAMES[name]}</text>`;
    x += 60 + NAMES[name].length * 6.4;
    return entry;
  });
  const middle = TOP + HEIGHT / 2;
  return [
    ...entries,
    `<text transform="rotate(-90 18 ${middle})" x="18" y="${middle}" text-anchor="middle">median latency with ${connections} connections, ms</text>`,
  ].join("\n");
}

const fixed = (value: number) => value.toFixed(1);

interface Colors {
  ink: string;
  faint: string;
  paper: string;
  lines: Record<ServerName, string>;
}

const LIGHT: Colors = {
  ink: "#1f2328",
  faint: "#d0d7de",
  paper: "#ffffff",
  lines: { service: "#0969da", L: "#1a7f37", T: "#bc4c00" },
};
const DARK: Colors = {
  ink: "#e6edf3",
  faint: "#30363d",
  paper: "#0d1117",
  lines: { service: "#58a6ff", L: "#3fb950", T: "#f0883e" },
};

const style = ({ ink, faint, paper, lines }: Colors) =>
  [
    `text { fill: ${ink} } .grid { stroke: ${faint} } .paper { fill: ${paper} }`,
    ...SERVERS.map(
      (name) => `.line.${name} { stroke: ${lines[name]} } .dot.${name} { fill: ${lines[name]} }`,
    ),
  ].join("\n");

const svg = (
  parts: string[],
) => `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${TOTAL_WIDTH} ${TOTAL_HEIGHT}" role="img" aria-label="Median latency of list forms by page depth and by scope size, of three servers">
<style>
text { font: 12px system-ui, "DejaVu Sans", sans-serif }
.title { font-weight: 600; font-size: 13px }
.line { fill: none; stroke-width: 2 }
${style(LIGHT)}
@media (prefers-color-scheme: dark) {
${style(DARK)}
}
</style>
<rect class="paper" width="${TOTAL_WIDTH}" height="${TOTAL_HEIGHT}" rx="6"/>
${parts.join("\n")}
</svg>
`;
