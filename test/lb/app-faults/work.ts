/** Takes a moment, and says of which release and in which process it was. */
export async function work(): Promise<object> {
  await new Promise((resolve) => {
    setTimeout(resolve, 20);
  });
  return { release: 1, pid: process.pid };
}
