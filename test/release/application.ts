/** An application, what it must do whatever versions serve it, and the comparison of their versions. */
import type { ExecutionContext } from 'ava';

import { folderOf } from '../support/folder.ts';
import { CURRENT } from './earlier.ts';
import type { MixedStack } from './mixed-stack.ts';

const TYPESCRIPT = `
import { existsSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { endpoint, Endpoint } from '@capstan/sdk';

export const hello = endpoint({ name: 'hello', workers: [0, 1] }, (name: string) => \`Hello, \${name}!\`);
export const gated = endpoint({ name: 'gated', workers: [0, 1] }, async (gate: string) => {
  while (!existsSync(gate)) await pause(20);
  return 'through';
});
const api = new Endpoint({ name: 'api', workers: [0, 1] });
export const health = api.get('/health', () => ({ status: 'fine' }));
`;
const PYTHON = `
from capstan import Endpoint

@Endpoint(name="bonjour", workers=(0, 1))
def bonjour(name: str):
    return f"Bonjour, {name}!"
`;

export async function application(t: ExecutionContext): Promise<string> {
  return folderOf(t, { 'work.ts': TYPESCRIPT, 'work.py': PYTHON });
}

/** Jobs in both languages, and a request to a route. */
export async function works(t: ExecutionContext, stack: MixedStack, when: string): Promise<void> {
  t.like(await stack.job('hello', { name: when }), { status: 'COMPLETED', output: `Hello, ${when}!` }, when);
  t.like(await stack.job('bonjour', { name: when }), { status: 'COMPLETED', output: `Bonjour, ${when}!` }, when);
  t.deepEqual(await stack.route('api', '/health'), { status: 'fine' }, when);
}

export interface Check {
  readonly parts: readonly { readonly part: string; readonly version: string | null }[];
  readonly upgrade: readonly { readonly part: string; readonly from: string | null }[];
}

export async function versionCheck(stack: MixedStack): Promise<Check> {
  return JSON.parse((await stack.tool(CURRENT, 'version', '--check', '--json', '--url', stack.url)).stdout) as Check;
}
