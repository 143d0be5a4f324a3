import type { ComponentChildren } from "preact";
import { toFailure } from "../core.js";
import type { Query } from "../queries.js";
import { Copy } from "./copy.js";

/** What failed, with the correlation id for the logs. */
export function Problem({ error, retry }: { error: unknown; retry?: () => void }) {
  const { message, correlationId, status, fields } = toFailure(error);
  if (status === 401) return <p class="problem">Your session had ended. Sign in, then try again.</p>;
  return (
    <div class="problem" role="alert">
      <p>
        <strong>{fields.length > 0 ? "Not accepted:" : message}</strong>
      </p>
      {fields.map(({ field, issue }) => (
        <p key={field}>
          {issue} ({field})
        </p>
      ))}
      {correlationId && (
        <p>
          Correlation id <Copy text={correlationId} />
        </p>
      )}
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

interface LoadedProps<Data> {
  query: Query<Data>;
  children: (data: Data) => ComponentChildren;
}

/** The data, or that they are being read, or why not. Data that could not be read again stay, with the reason above them. */
export function Loaded<Data>({ query, children }: LoadedProps<Data>) {
  const { data, error, refetch, isPlaceholderData } = query;
  const problem = error && <Problem error={error} retry={() => void refetch()} />;
  if (data === undefined) {
    return (
      problem ?? (
        <p class="loading" role="status">
          Loading …
        </p>
      )
    );
  }
  return (
    <>
      {problem}
      <div aria-busy={isPlaceholderData}>{children(data)}</div>
    </>
  );
}
