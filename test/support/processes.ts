/** The processes of one stack, found by a mark in their environment: /proc of Linux shows it. */
import { readdirSync, readFileSync } from 'node:fs';

/** A host runs a worker's code, in whichever runtime. */
export type Role = 'up' | 'scheduler' | 'gateway' | 'agent' | 'host' | 'other';

export interface Found {
  readonly pid: number;
  readonly role: Role;
  readonly parent: number;
  /** Its words, with spaces. */
  readonly command: string;
}

/** Whether tests that look for processes can run here. */
export const canFindProcesses = process.platform === 'linux';

/** Living processes whose environment holds `mark`; zombies hold nothing any more. */
export function processesOf(mark: string): Found[] {
  const found: Found[] = [];
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const environment = read(name, 'environ');
    if (!environment.includes(mark)) continue;
    const command = read(name, 'cmdline').split('\0');
    const stat = read(name, 'stat');
    if (command[0] === '' || stat === '') continue; // ended between two reads
    const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
    found.push({ pid: Number(name), role: roleOf(command), parent, command: command.join(' ').trimEnd() });
  }
  return found;
}

function roleOf(command: readonly string[]): Role {
  if (command.some((word) => word.includes('/agent/runtimes/'))) return 'host';
  const tool = command.findIndex((word) => word.endsWith('cli/main.ts'));
  const part = tool === -1 ? undefined : command[tool + 1];
  return part === 'up' || part === 'scheduler' || part === 'gateway' || part === 'agent' ? part : 'other';
}

/** Empty when the process is gone, or another user's. */
function read(pid: string, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return '';
  }
}
