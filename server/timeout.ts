/** Waits until `work` has settled, but at most `seconds`. Rejects only if `work` does so in time. */
export async function waitAtMost(seconds: number, work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, seconds * 1000);
  });
  await Promise.race([work, timeout]).finally(() => clearTimeout(timer));
}
