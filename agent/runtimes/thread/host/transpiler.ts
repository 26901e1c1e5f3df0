/** Node's own TypeScript support, loaded ahead. */
import { stripTypeScriptTypes } from 'node:module';

/** Its load takes the processor for a while, and must not meet the start of a worker that came at once. */
const IDLE_MS = 50;

/**
 * Node loads its transpiler with the first module that is TypeScript, which takes longer than all the
 * rest of a spare's taking over. Our own programs are JavaScript; so a host without a worker loads it in the
 * thread that user code will run in. Gives what calls it off.
 */
export function loadTranspilerWhenIdle(): () => void {
  const timer = setTimeout(() => stripTypeScriptTypes('', { mode: 'transform' }), IDLE_MS);
  return () => clearTimeout(timer);
}
