import type { ComponentChildren } from "preact";
import type { Query } from "../queries.js";
import { Problem } from "./problem.js";

const LOADING = (
  <p role="status" aria-busy="true">
    Loading …
  </p>
);

interface LoadedProps<Data> {
  query: Query<Data>;
  children: (data: Data) => ComponentChildren;
}

/** The data, or that they are being read, or why not. Data that could not be read again stay, with the reason above them. */
export function Loaded<Data>({ query, children }: LoadedProps<Data>) {
  const { data, error, refetch, isPlaceholderData } = query;
  const problem = error && <Problem error={error} retry={() => void refetch()} />;
  if (data === undefined) return problem ?? LOADING;
  return (
    <>
      {problem}
      <div aria-busy={isPlaceholderData}>{children(data)}</div>
    </>
  );
}
