import {
  keepPreviousData,
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
const AFTER_FAILURE_MS = 10_000;

/** No answer, or 5xx: the service may be restarting. */
const isTemporary = (error: unknown) => Boolean(error) && [0, 500, 502, 503, 504].includes(toFailure(error).status);

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
    },
  });
}

export type Query<Data> = ReturnType<typeof useRead<Data>>;

type Seconds = number | false | undefined;

/** Reads from the core. Equal keys share one call; the last data stay while others are read. */
export const useRead = <Data>(
  key: readonly unknown[],
  read: () => Promise<Data>,
  options: { everySeconds?: Seconds | ((data: Data | undefined) => Seconds); enabled?: boolean } = {},
) =>
  useQuery({
    queryKey: key,
    queryFn: read,
    placeholderData: keepPreviousData,
    enabled: options.enabled ?? true,
    refetchInterval: ({ state }) => {
      if (isTemporary(state.error)) return AFTER_FAILURE_MS;
      const { everySeconds = false } = options;
      const seconds = typeof everySeconds === "function" ? everySeconds(state.data) : everySeconds;
      return seconds ? seconds * 1000 : false;
    },
  });

/** A listing, from memory if it was read before. */
export const useListing = (id: string | undefined) =>
  useRead(["listing", id], () => core.listings.getAny.query({ id: id ?? "" }), { enabled: id !== undefined });

/** What to tell the reader about a change. */
export type Done<Result> = string | ((result: Result) => string | undefined) | undefined;

/** Changes something, says so, and reads again what is shown. */
export function useChange<Input, Result>(change: (input: Input) => Promise<Result>, done?: Done<Result>) {
  const client = useQueryClient();
  const notify = useNotify();
  return useMutation({
    mutationFn: change,
    onSuccess: async (result: Result) => {
      const text = typeof done === "function" ? done(result) : done;
      if (text) notify(text);
      await client.invalidateQueries();
    },
    // It may be rejected because what is shown is out of date.
    onError: (error) => void ([400, 404].includes(toFailure(error).status) && client.invalidateQueries()),
  });
}
