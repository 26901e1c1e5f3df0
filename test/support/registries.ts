/** Why packages of a registry cannot be installed here; null when they can. */
import { spawnSync } from 'node:child_process';

const answers = (command: string, ...args: string[]): boolean => spawnSync(command, args, { timeout: 60_000 }).status === 0;

export const missingRegistry = {
  pypi: answers('python3', '-m', 'pip', 'index', 'versions', 'waitress') ? null : 'there is no package index',
  npm: answers('npm', 'view', 'hono', 'version') ? null : 'there is no npm registry',
} as const;
