/** The scripts of examples/first-day, each run in an empty folder as a user pastes it, with the real packages. */
import { execFile } from 'node:child_process';
import { chmod, mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test from 'ava';

import { missingRegistry } from '../support/registries.ts';
import { sharedStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';

const root = join(import.meta.dirname, '../..');
const scripts = join(root, 'examples/first-day');

/** What each script prints at its end. */
const ANSWERS: Readonly<Record<string, { readonly registry: keyof typeof missingRegistry; readonly answer: unknown }>> = {
  fastapi: { registry: 'pypi', answer: { ordered: '2 x lamp' } },
  flask: { registry: 'pypi', answer: { greeting: 'Hello, Ada!' } },
  'numpy-pillow': { registry: 'pypi', answer: { shape: [2, 2, 3], brightness: 140.8 } },
  express: { registry: 'npm', answer: { sum: 5 } },
  zod: { registry: 'npm', answer: ['longest'] },
};

const start = sharedStack(test, { CAPSTAN_LB_HOLD_MS: '60000' });
let stack: Stack;
test.before(async () => {
  stack = await start();
  const programs = join(stack.scratch, 'bin');
  await mkdir(programs);
  await writeFile(join(programs, 'capstan'), `#!/bin/sh\nexec '${process.execPath}' '${join(root, 'cli/capstan.mjs')}' "$@"\n`);
  await chmod(join(programs, 'capstan'), 0o755);
});

test('every script has an answer', async (t) => {
  const files = (await readdir(scripts)).filter((file) => file.endsWith('.sh'));
  t.deepEqual(
    files.toSorted(),
    Object.keys(ANSWERS)
      .map((name) => `${name}.sh`)
      .toSorted(),
  );
});

for (const [name, { registry, answer }] of Object.entries(ANSWERS)) {
  const missing = missingRegistry[registry];
  const title = `${name}.sh: from an empty folder to an answer`;
  if (missing !== null) {
    test.skip(`${title} (${missing})`, (t) => t.pass());
    continue;
  }
  test.serial(title, async (t) => {
    const project = join(stack.scratch, name);
    await mkdir(project);
    const { CAPSTAN_HTTP_PORT: _http, CAPSTAN_GRPC_PORT: _grpc, ...variables } = stack.variables;
    const env = { ...variables, CAPSTAN_URL: stack.url, PATH: `${join(stack.scratch, 'bin')}:${process.env['PATH'] ?? ''}` };
    const { stdout } = await promisify(execFile)('bash', [join(scripts, `${name}.sh`)], { cwd: project, env });
    t.deepEqual(JSON.parse(/(?:^|\n)([[{][^]*)$/.exec(stdout)?.[1] ?? stdout), answer, stdout);
  });
}
