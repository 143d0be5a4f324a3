/** Name, color, and the number of a row; null: unknown. */
export type Series<Row> = [
  name: string,
  color: "primary" | "success" | "warning" | "danger",
  read: (row: Row) => number | null | undefined,
];

interface ChartProps<Row> {
  title: string;
  /** One per minute, oldest first. */
  rows: Row[];
  /** Stacked in this order, from above. */
  series: Series<Row>[];
  /** The number of a series is its highest, not the sum. */
  isPeak?: boolean | undefined;
}

const SLOTS = 60;
const BAR_WIDTH = 0.8;

/** Bars of the last 60 minutes, the newest at the right, and their numbers as text. */
export function Chart<Row>({ title, rows, series, isPeak = false }: ChartProps<Row>) {
  const stacks = rows.map((row) => series.map(([, , read]) => read(row) ?? 0));
  const max = Math.max(...stacks.map(sum), 1);
  const numberOf = (read: Series<Row>[2]) => {
    const known = rows.map(read).filter((value) => typeof value === "number");
    if (known.length === 0) return "–";
    return (isPeak ? Math.max(...known) : sum(known)).toLocaleString();
  };
  const bars = series.flatMap(([name, color], index) =>
    stacks.map((stack, minute) => {
      const y = max - sum(stack.slice(index));
      const place = { x: SLOTS - rows.length + minute, y, width: BAR_WIDTH, height: stack[index] };
      return <rect key={`${name} ${minute}`} class={`text-${color}`} fill="currentColor" {...place} />;
    }),
  );
  return (
    <figure class="mb-0">
      <figcaption>{title}</figcaption>
      <svg
        width="100%"
        height="64"
        class="border-bottom"
        viewBox={`0 0 ${SLOTS} ${max}`}
        preserveAspectRatio="none"
        aria-hidden="true"
      >
        {bars}
      </svg>
      {series.map(([name, color, read]) => (
        <span key={name} class="me-3">
          <span class={`badge bg-${color}`}> </span> {numberOf(read)} {name}
        </span>
      ))}
    </figure>
  );
}

const sum = (values: number[]) => values.reduce((total, value) => total + value, 0);
