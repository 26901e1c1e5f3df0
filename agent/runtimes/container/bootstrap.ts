/**
 * The programs that run in a worker's container before the user's code: those of the staged bootstrap
 * (bootstrap.ts).
 */
import { NODE_FLAGS } from '../hosted/host-program.ts';
import type { Language } from '../process/language.ts';
import { BOOTSTRAP, NODE } from './layout.ts';

const INIT = `${BOOTSTRAP}/agent/runtimes/container/init`;

/** The programs of a language; the first one that the image can run is used. */
export const ENTRYPOINTS: Readonly<Record<Language, readonly (readonly string[])[]>> = {
  node: [NODE, 'node'].map((command) => [command, ...NODE_FLAGS, `${INIT}/init.js`]),
  python: ['python3', 'python'].map((command) => [command, `${INIT}/init.py`]),
};

/** Added to the exit detail of a container that never reported. */
export const NEEDS: Readonly<Record<Language, string>> = {
  node: "an image for Node must have glibc 2.28 or newer with libstdc++ (for the agent's Node), or its own Node 22.18 or newer on PATH",
  python: 'an image for Python must have python3 or python, 3.8 or newer, on PATH',
};
