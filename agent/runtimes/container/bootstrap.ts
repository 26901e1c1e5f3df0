/** What runs in a worker's container before the user's code: our own programs, put where any container can read them. */
import { cp, mkdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { NODE_FLAGS } from '../hosted/host-program.ts';
import type { Language } from '../process/language.ts';
import { BOOTSTRAP, NODE } from './layout.ts';
import { makeReadable } from './readable.ts';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const INIT = `${BOOTSTRAP}/agent/runtimes/container/init`;

/** A language's programs: the first that is in the image runs. */
export const ENTRYPOINTS: Readonly<Record<Language, readonly (readonly string[])[]>> = {
  node: [NODE, 'node'].map((command) => [command, ...NODE_FLAGS, `${INIT}/init.ts`]),
  python: ['python3', 'python'].map((command) => [command, `${INIT}/init.py`]),
};

/** Said with the end of a container that never reported. */
export const NEEDS: Readonly<Record<Language, string>> = {
  node: "an image for Node needs glibc 2.28 or newer with libstdc++, for the agent's own Node, or a Node 22.18 or newer of its own on its path",
  python: 'an image for Python needs python3 or python, 3.8 or newer, on its path',
};

/**
 * Copies the bootstrap into `folder`, readable by every user: a container's may be any, and the
 * checkout may lie where no other user can look. What was there goes.
 */
export async function stageBootstrap(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const copy = (from: string, to: string): Promise<void> =>
    cp(from, join(folder, to), { recursive: true, dereference: true, filter: (source) => !/__pycache__|\/proto\/gen(\/|$)/.test(source) });
  await copy(join(ROOT, 'agent/runtimes'), 'agent/runtimes');
  await copy(join(ROOT, 'proto'), 'proto');
  // The one package that the host's code needs: it reads the parameters of functions.
  await copy(dirname(dirname(fileURLToPath(import.meta.resolve('acorn')))), 'node_modules/acorn');
  await writeFile(join(folder, 'package.json'), '{"type":"module"}\n');
  await makeReadable(folder);
}
