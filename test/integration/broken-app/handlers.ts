/** Cannot be loaded while its environment says so. */
if (process.env['BROKEN'] === 'yes') throw new Error('the weights are missing');

export function answer(n: number): number {
  return n;
}
