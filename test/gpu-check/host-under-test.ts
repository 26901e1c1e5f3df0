/** Runs the check of a GPU host (deploy/gpu-check) against a fake nvidia-smi. */
import { execFile } from 'node:child_process';
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { ExecutionContext } from 'ava';
import { writeFakeSmi } from '../agent/fake-nvidia-smi.ts';
import { folderOf } from '../support/folder.ts';

export const root = join(import.meta.dirname, '../..');
export const GPU = { uuid: 'GPU-a', name: 'NVIDIA A100', memoryMiB: 81_920 };

interface Options {
  readonly args?: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
}

export interface Row {
  readonly check: string;
  readonly result: 'pass' | 'fail' | 'skip';
  readonly value: string;
}

/** An installation whose programs are those of this checkout. */
async function installation(folder: string): Promise<string> {
  const programs = join(folder, 'install/node_modules/.bin');
  await mkdir(programs, { recursive: true });
  for (const [name, command] of [
    ['node', `exec "${process.execPath}" "$@"`],
    ['capstan', `exec "${process.execPath}" "${join(root, 'cli/main.ts')}" "$@"`],
  ] as const) {
    await writeFile(join(programs, name), `#!/bin/sh\n${command}\n`);
    await chmod(join(programs, name), 0o755);
  }
  return join(folder, 'install');
}

/** Prints what the check itself asks for; `memory` in MiB. */
export async function fakeSmi(folder: string, memory: number): Promise<string> {
  const agents = await writeFakeSmi(join(folder, 'agent'), { gpus: [GPU] });
  const own = `${GPU.uuid}, ${GPU.name}, ${memory}, 12, 550.1, 7, 40, 67.03, [N/A], [N/A]`;
  const path = join(folder, 'nvidia-smi');
  const cases = [
    `*ecc.errors*) echo '${own}';;`,
    // A driver that has dropped the earlier name of the column.
    `*=uuid,clocks_event_reasons*) echo '${GPU.uuid}, 0x0000000000000001';;`,
    `*=memory.used*) echo 12;;`,
    `*) exec '${agents}' "$@";;`,
  ];
  await writeFile(path, `#!/bin/sh\ncase "$*" in\n${cases.join('\n')}\nesac\n`);
  await chmod(path, 0o755);
  return path;
}

interface Outcome {
  readonly code: number;
  readonly rows: readonly Row[];
  readonly xml: string;
  readonly said: string;
}

export async function check(t: ExecutionContext, smi: (folder: string) => Promise<string>, options: Options = {}): Promise<Outcome> {
  const folder = await folderOf(t);
  const out = join(folder, 'out');
  const args = [await installation(folder), '--out', out, '--seconds', '1', '--starts', '3', ...(options.args ?? [])];
  const env = {
    ...process.env,
    CAPSTAN_NVIDIA_SMI: await smi(folder),
    CAPSTAN_CONTAINER_SOCKET: 'none',
    TMPDIR: folder,
    ...options.env,
  };
  const { code, said } = await promisify(execFile)(join(root, 'deploy/gpu-check/run'), args, { env }).then(
    ({ stdout }) => ({ code: 0, said: stdout }),
    (error: unknown) => {
      const { code: exit, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
      return { code: exit, said: `${stdout}\n${stderr}` };
    },
  );
  const { rows } = JSON.parse(await readFile(join(out, 'gpu-check.json'), 'utf8')) as { rows: Row[] };
  return { code, rows, xml: await readFile(join(out, 'nvidia-smi.xml'), 'utf8'), said };
}
