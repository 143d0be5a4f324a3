const SLOTS = 60;
const HEIGHT = 24;
/** Space between two bars, in bars. */
const GAP = 0.2;

export interface Series {
  name: string;
  tone: "accent" | "info" | "good" | "warn" | "bad";
  /** One per minute, oldest first. Null: unknown. */
  values: (number | null)[];
}

interface ChartProps {
  /** Says the numbers in words, for screen readers. */
  label: string;
  /** Stacked in this order, from below. */
  series: Series[];
}

/** Bars of the last 60 minutes, the newest at the right. */
export function Chart({ label, series }: ChartProps) {
  const minutes = series[0]?.values.length ?? 0;
  const totals = Array.from({ length: minutes }, (_, minute) => sumOf(series.map(({ values }) => values[minute] ?? 0)));
  const max = Math.max(...totals, 1);
  const bars = totals.flatMap((total, minute) => {
    let y = HEIGHT - (total / max) * HEIGHT;
    return series.toReversed().flatMap(({ name, tone, values }) => {
      const height = ((values[minute] ?? 0) / max) * HEIGHT;
      y += height;
      const place = { x: SLOTS - minutes + minute, y: y - height, width: 1 - GAP, height };
      return height > 0 ? [<rect key={`${name} ${minute}`} class={tone} {...place} />] : [];
    });
  });
  return (
    <svg class="chart" role="img" aria-label={label} viewBox={`0 0 ${SLOTS} ${HEIGHT}`} preserveAspectRatio="none">
      {bars}
    </svg>
  );
}

/** The color of a series. */
export const Swatch = ({ tone }: Pick<Series, "tone">) => (
  <svg class="swatch" viewBox="0 0 1 1" aria-hidden="true">
    <rect class={tone} width="1" height="1" />
  </svg>
);

export const sumOf = (values: (number | null)[]) => values.reduce<number>((total, value) => total + (value ?? 0), 0);
