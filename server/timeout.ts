/** Waits for `work`, but at most `seconds`. Rejects only if `work` rejects in time. */
export async function waitAtMost(seconds: number, work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, seconds * 1000);
  });
  await Promise.race([work, timeout]).finally(() => clearTimeout(timer));
}
