import { toFailure } from "../core.js";
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
