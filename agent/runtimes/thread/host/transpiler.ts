/** Preloads Node's TypeScript support. */
import { stripTypeScriptTypes } from 'node:module';

/**
 * Loading uses the processor for a while, and must not coincide with the start of a worker that arrives immediately.
 */
const IDLE_MS = 50;

/**
 * The transpiler is WebAssembly, whose functions are compiled at their first call: an empty source would leave most of
 * that work (24 to 64 ms) to the user's first function. This source therefore contains common syntax.
 */
const SAMPLE = `
import { a, type B } from './a.ts';
import type { C } from './c.ts';
interface D extends C { readonly x: number; y?: B[]; f(n: number): Promise<void> }
type E<T> = T extends string ? { [K in keyof T]: T[K] } : Record<string, unknown> | readonly [number, ...string[]];
enum G { One, Two = 'two' }
export default abstract class F<T> implements D {
  static #z: E<number> = 1;
  private readonly x: number = 1;
  constructor(readonly q: string) {}
  async *g(n: number, { m = 2, ...rest }: { m?: number } = {}): AsyncGenerator<number> { for await (const each of [n]) yield each as unknown as number; }
  get v(): number { return this.x!; }
}
export const h = async <T,>(input: T, ...more: unknown[]): Promise<T> => {
  try {
    if (input === null) throw new Error(\`no \${String(input)}\`);
    return input satisfies T;
  } catch (error) {
    return { ...(input as object), list: [1, ...more].map((n) => n ?? 0), why: error?.message } as T;
  } finally { await a(G.One); }
};
export function i(n: number): { n: number; at: number } {
  let k = 0;
  for (let j = 0; j < n; j++) k += j ** 2;
  switch (k) { case 1: break; default: while (k > 3) k--; }
  return { n, at: k > 1 ? k : -k };
}
`;

/**
 * Node loads its transpiler with the first TypeScript module, which takes longer than the rest of a spare's assignment.
 * Our own programs are JavaScript, so a host without a worker loads it ahead, in the thread that will run user code.
 * Returns a function that cancels it.
 */
export function loadTranspilerWhenIdle(): () => void {
  const timer = setTimeout(() => stripTypeScriptTypes(SAMPLE, { mode: 'transform', sourceMap: true }), IDLE_MS);
  return () => clearTimeout(timer);
}
