import { useState } from "preact/hooks";

/** Name, color, and the number of a minute; null: unknown. */
export type Series<Minute> = [
  name: string,
  color: "primary" | "success" | "warning" | "danger",
  read: (minute: Minute) => number | null | undefined,
];

interface ChartProps<Minute> {
  title: string;
  unit: string;
  /** Oldest first; the last one is in progress. */
  rows: Minute[];
  /** Stacked in this order, from above. */
  series: Series<Minute>[];
  /** Of the hour, the highest number is shown, not the sum. */
  isPeak?: boolean | undefined;
}

const SLOTS = 60;
const BAR_WIDTH = 0.8;

/**
 * Bars of the last 60 minutes, the newest at the right. The numbers of a minute are shown under the pointer, and with the arrow
 * keys; otherwise those of the hour.
 */
export function Chart<Minute extends { at: string }>(props: ChartProps<Minute>) {
  const { title, unit, rows, series, isPeak = false } = props;
  const [slot, setSlot] = useState<number>();
  const top = roundUp(Math.max(...rows.map((row) => heightOf(row, series))));
  const minute = slot === undefined ? undefined : rows[slot - SLOTS + rows.length];
  const numbers = series.map(([name, color, read]) => {
    const value = slot === undefined ? ofHour(rows.map(read), isPeak) : minute && read(minute);
    return { name, color, text: value === undefined || value === null ? "–" : `${value.toLocaleString()} ${name}` };
  });
  const when = slot === undefined ? (isPeak ? "Highest:" : "In the hour:") : `${nameOf(minute, slot)}:`;
  return (
    <figure class="mb-0">
      <figcaption>
        {title}, <span class="text-body-secondary">{unit}</span>
      </figcaption>
      <div class="chart small text-body-secondary">
        <div class="chart-values" aria-hidden="true">
          {[top, top / 2, 0].map((value) => (
            <span key={value}>{COMPACT.format(value)}</span>
          ))}
        </div>
        <div class="position-relative">
          <Bars {...props} top={top} slot={slot} />
          <input
            type="range"
            aria-label={`${title}, ${unit}: minute`}
            aria-valuetext={`${when} ${numbers.map(({ text }) => text).join(", ")}`}
            max={SLOTS - 1}
            value={slot ?? SLOTS - 1}
            onInput={({ currentTarget }) => setSlot(currentTarget.valueAsNumber)}
            onFocus={({ currentTarget }) => setSlot(currentTarget.valueAsNumber)}
            onBlur={() => setSlot(undefined)}
            onPointerMove={({ currentTarget, offsetX }) =>
              setSlot(Math.min(SLOTS - 1, Math.max(0, Math.floor((offsetX / currentTarget.clientWidth) * SLOTS))))
            }
            onPointerLeave={({ currentTarget }) => currentTarget === document.activeElement || setSlot(undefined)}
          />
        </div>
        <div class="chart-times" aria-hidden="true">
          <span>60 min ago</span>
          <span>30 min ago</span>
          <span>now</span>
        </div>
      </div>
      <div class="mt-1">
        <span class="me-2 text-body-secondary">{when}</span>
        {numbers.map(({ name, color, text }) => (
          <span key={name} class="me-3 text-nowrap">
            <span class={`badge bg-${color}`}> </span> {text}
          </span>
        ))}
      </div>
    </figure>
  );
}

type BarsProps<Minute> = ChartProps<Minute> & { top: number; slot: number | undefined };

function Bars<Minute>({ rows, series, top, slot }: BarsProps<Minute>) {
  const first = SLOTS - rows.length;
  return (
    <svg
      width="100%"
      height="80"
      class="d-block border-bottom"
      viewBox={`0 0 ${SLOTS} ${top}`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      {[top, top / 2].map((y) => (
        <path key={y} class="chart-line" d={`M0 ${top - y}H${SLOTS}`} vector-effect="non-scaling-stroke" />
      ))}
      {slot !== undefined && (
        <rect x={slot} y="0" width="1" height={top} class="text-secondary" fill="currentColor" fill-opacity="0.3" />
      )}
      {series.flatMap(([name, color, read], index) =>
        rows.map((row, minute) => {
          const y = top - heightOf(row, series.slice(index));
          const place = { x: first + minute + (1 - BAR_WIDTH) / 2, y, width: BAR_WIDTH, height: read(row) ?? 0 };
          return <rect key={`${name} ${minute}`} class={`text-${color}`} fill="currentColor" {...place} />;
        }),
      )}
    </svg>
  );
}

const COMPACT = new Intl.NumberFormat(undefined, { notation: "compact" });
const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });

function nameOf(minute: { at: string } | undefined, slot: number): string {
  if (!minute) return `${SLOTS - 1 - slot} min ago, before the start`;
  return slot === SLOTS - 1 ? "This minute" : CLOCK.format(new Date(minute.at));
}

const sum = (values: number[]) => values.reduce((total, value) => total + value, 0);

const heightOf = <Minute,>(row: Minute, series: Series<Minute>[]) => sum(series.map(([, , read]) => read(row) ?? 0));

/** Undefined if none is known. */
function ofHour(values: (number | null | undefined)[], isPeak: boolean): number | undefined {
  const known = values.filter((value) => typeof value === "number");
  if (known.length === 0) return undefined;
  return isPeak ? Math.max(...known) : sum(known);
}

/** The next number of 2, 4, 10, 20, 40, 100 …, whose half is a whole number too. */
function roundUp(value: number): number {
  for (let power = 1; ; power *= 10) {
    const found = [2, 4, 10].find((factor) => factor * power >= value);
    if (found !== undefined) return found * power;
  }
}
