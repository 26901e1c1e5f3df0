/** A folder with copies of the programs in `.ci/`, and made-up programs first on the path. */
import { chmod, cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import type { ExecutionContext } from 'ava';

import { run } from '../cli/fakes/run.ts';
import { folderOf } from '../support/folder.ts';

const root = join(import.meta.dirname, '../..');

/** `.ci/run` with what it is made of. */
export const PROGRAMS = ['.ci/run', '.ci/checks.mjs', '.ci/lanes.mjs', '.ci/sets.mjs'];

export interface Outcome {
  readonly code: number | NodeJS.Signals;
  readonly said: string;
  readonly errors: string;
}

export class Checkout {
  readonly folder: string;

  private constructor(folder: string) {
    this.folder = folder;
  }

  static async make(t: ExecutionContext, files: readonly string[]): Promise<Checkout> {
    const checkout = new Checkout(await folderOf(t));
    for (const file of files) await cp(join(root, file), join(checkout.folder, file), { recursive: true });
    return checkout;
  }

  async write(path: string, text: string): Promise<void> {
    await mkdir(dirname(join(this.folder, path)), { recursive: true });
    await writeFile(join(this.folder, path), text);
  }

  async writeProgram(path: string, text: string): Promise<void> {
    await this.write(path, text);
    await chmod(join(this.folder, path), 0o755);
  }

  /** A program on the path that adds its name and arguments to the calls, then runs the commands. */
  async fakeProgram(name: string, commands = ''): Promise<void> {
    await this.writeProgram(`bin/${name}`, `#!/bin/bash\nprintf '%s\\n' "${name} $*" >>'${this.folder}/calls'\n${commands}\n`);
  }

  /** Name and arguments of each call of a made-up program. */
  async calls(): Promise<readonly string[]> {
    const text = await readFile(join(this.folder, 'calls'), 'utf8').catch(() => ''); // nothing was called
    return text.split('\n').filter((line) => line !== '');
  }

  async run(
    program: string,
    args: readonly string[] = [],
    path = `${dirname(process.execPath)}:${process.env['PATH'] ?? ''}`,
    more: Readonly<Record<string, string>> = {},
  ): Promise<Outcome> {
    const env = { ...more, PATH: `${join(this.folder, 'bin')}:${path}` };
    const running = run([join(this.folder, program), ...args], { program: '/bin/bash', cwd: this.folder, env });
    return { code: await running.ended, said: running.stdout(), errors: running.stderr() };
  }
}
