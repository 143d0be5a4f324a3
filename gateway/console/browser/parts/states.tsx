import type { ComponentChildren } from "preact";
import { toFailure } from "../core.js";
import type { Query } from "../queries.js";
import { Copy } from "./copy.js";

interface ProblemProps {
  error: unknown;
  /** Introduces it. */
  text?: string;
  retry?: () => void;
  close?: () => void;
}

/** What failed, with the correlation id for the logs. */
export function Problem({ error, text, retry, close }: ProblemProps) {
  const { message, correlationId, fields } = toFailure(error);
  const reason = fields.length > 0 ? fields.map(({ field, issue }) => `${field}: ${issue}`).join("; ") : message;
  return (
    <div class="alert alert-danger mb-0" role="alert">
      <p>
        {text} {reason}
      </p>
      {correlationId && (
        <p>
          Correlation id <Copy text={correlationId} />
        </p>
      )}
      {(retry ?? close) && (
        <button type="button" class="btn" onClick={retry ?? close}>
          {retry ? "Try again" : "Close"}
        </button>
      )}
    </div>
  );
}

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
