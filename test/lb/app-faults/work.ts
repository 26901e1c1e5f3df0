/** Takes a moment, and says of which release and in which process it was. */
export async function work(ms: number = 60): Promise<object> {
  await new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
  return { release: 1, pid: process.pid };
}
