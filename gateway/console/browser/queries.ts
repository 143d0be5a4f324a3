import {
  MutationCache,
  notifyManager,
  QueryCache,
  QueryClient,
  useMutation,
  useQuery,
  useQueryClient,
} from "@tanstack/preact-query";
import { core, toFailure } from "./core.js";
import { useNotify } from "./parts/notices.js";

const MAX_RETRIES = 3;
const FRESH_MS = 5_000;
export const AFTER_FAILURE_MS = 10_000;

/** No answer, or 5xx: the service may be restarting. */
export const isTemporary = (error: unknown) =>
  Boolean(error) && [0, 500, 502, 503, 504].includes(toFailure(error).status);

// At once, and not in another task: the second click of a double click must find the button disabled.
notifyManager.setScheduler(queueMicrotask);

/** `onSignedOut` is called if a call fails because there is no session. */
export function createQueryClient(onSignedOut: () => void): QueryClient {
  const onError = (error: unknown) => void (toFailure(error).status === 401 && onSignedOut());
  return new QueryClient({
    queryCache: new QueryCache({ onError }),
    mutationCache: new MutationCache({ onError }),
    defaultOptions: {
      queries: {
        staleTime: FRESH_MS,
        retry: (count, error) => count < MAX_RETRIES && isTemporary(error),
      },
      // Fails at once without a network, instead of waiting for one. No token or key stays in memory.
      mutations: { networkMode: "always", gcTime: 0 },
    },
  });
}

export type Query<Data> = ReturnType<typeof useRead<Data>>;

interface ReadOptions {
  /** Reads again after this time. */
  everySeconds?: number | undefined;
  enabled?: boolean;
  /** It is not read again: each read is audited. */
  isOnce?: boolean;
  /** The page before stays while another one is read. */
  isPaged?: boolean;
}

/** Reads from the core. Equal keys share one call. */
export const useRead = <Data>(
  key: readonly unknown[],
  read: () => Promise<Data>,
  { everySeconds, enabled = true, isOnce = false, isPaged = false }: ReadOptions = {},
) =>
  useQuery<Data>({
    queryKey: key,
    queryFn: read,
    placeholderData: (previous) => (isPaged ? previous : undefined),
    enabled,
    refetchInterval: ({ state }) =>
      isTemporary(state.error) ? AFTER_FAILURE_MS : everySeconds !== undefined && everySeconds * 1000,
    ...(isOnce && { staleTime: Number.POSITIVE_INFINITY, retry: false, refetchInterval: false }),
  });

/** A listing, from memory if it was read before. */
export const useListing = (id: string | undefined) =>
  useRead(["listing", id], () => core.listings.getAny.query({ id: id ?? "" }), { enabled: id !== undefined });

/** What to say about a change that was made. */
export type Done<Result> = string | ((result: Result) => string) | undefined;

interface ChangeOptions<Result> {
  done?: Done<Result>;
  /** Introduces a failure. Without it, a failure is left to the caller. */
  failed?: string;
  /** It changes nothing. */
  isRead?: boolean;
}

/** Changes something, says so, and reads again what is shown. */
export function useChange<Input, Result>(
  change: (input: Input) => Promise<Result>,
  { done, failed, isRead = false }: ChangeOptions<Result>,
) {
  const client = useQueryClient();
  const notify = useNotify();
  return useMutation({
    mutationFn: change,
    onSuccess: (result: Result) => void (done && notify(typeof done === "function" ? done(result) : done)),
    onError: (error) => void (failed !== undefined && notify(failed, error)),
    // Also after a failure: what is shown may be out of date, and a change without an answer may have happened.
    // Not awaited, because a result, such as a key, is shown even if nothing can be read.
    onSettled: () => void (isRead || client.invalidateQueries()),
  });
}
