/** Frameworks of Python in the versions that people have, with the real packages, in both forms of the address. */
import { cp, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import test from 'ava';

import { missingRegistry } from '../support/registries.ts';
import { Stack } from '../support/stack.ts';
import { mustServe, type Abilities } from './both-forms.ts';

const apps = join(import.meta.dirname, 'apps');

interface Case {
  readonly app: string;
  readonly requirements: readonly string[];
  readonly abilities: Abilities;
  readonly endpoints?: readonly string[];
  /** Files beside the application, by name. */
  readonly files?: Readonly<Record<string, string>>;
}

const STARLETTE = { links: true, slash: true, part: true, webSockets: true };
const CASES: Readonly<Record<string, Case>> = {
  ...Object.fromEntries(
    ['==0.95.2', '==0.103.2', '==0.108.0', '==0.109.2', ''].map((version) => [
      `FastAPI${version === '' ? ', the newest' : ` ${version.slice(2)}`}`,
      { app: 'fastapi', requirements: [`fastapi${version}`, 'python-multipart'], abilities: STARLETTE },
    ]),
  ),
  'FastAPI beside files named as modules of the standard library': {
    app: 'fastapi',
    requirements: ['fastapi', 'python-multipart'],
    abilities: STARLETTE,
    files: Object.fromEntries(
      ['email', 'types', 'queue', 'logging', 'json', 'enum', 'http/__init__'].map((name) => [`${name}.py`, 'own = 1\n']),
    ),
  },
  'Starlette 0.27': { app: 'starlette', requirements: ['starlette==0.27.0', 'python-multipart'], abilities: STARLETTE },
  'Starlette, the newest': { app: 'starlette', requirements: ['starlette', 'python-multipart'], abilities: STARLETTE },
  Litestar: { app: 'litestar', requirements: ['litestar'], abilities: { webSockets: true } },
  Quart: { app: 'quart', requirements: ['quart'], abilities: { links: true, slash: true, webSockets: true } },
  'Django by ASGI and WSGI': {
    app: 'django',
    requirements: ['django'],
    abilities: { links: true },
    endpoints: ['api', 'classic'],
  },
  Falcon: { app: 'falcon', requirements: ['falcon'], abilities: { webSockets: true } },
  BlackSheep: { app: 'blacksheep', requirements: ['blacksheep'], abilities: { webSockets: true } },
  'Flask 2': { app: 'flask', requirements: ['flask<3', 'werkzeug<3'], abilities: { links: true, slash: true } },
  'Flask 3': { app: 'flask', requirements: ['flask>=3'], abilities: { links: true, slash: true } },
};

let stack: Stack;
test.before(async () => {
  if (missingRegistry.pypi === null) stack = await Stack.start({ CAPSTAN_LB_HOLD_MS: '60000' });
});
test.after.always(async () => stack?.close());

for (const [title, { app, requirements, abilities, endpoints = ['api'], files = {} }] of Object.entries(CASES)) {
  if (missingRegistry.pypi !== null) {
    test.skip(`${title} (${missingRegistry.pypi})`, (t) => t.pass());
    continue;
  }
  test.serial(title, async (t) => {
    t.timeout(120_000);
    const name = title.replaceAll(/\W+/g, '-').toLowerCase();
    const folder = join(stack.scratch, name);
    await cp(join(apps, app), folder, { recursive: true });
    for (const [file, text] of Object.entries(files)) {
      await mkdir(dirname(join(folder, file)), { recursive: true });
      await writeFile(join(folder, file), text);
    }
    await writeFile(join(folder, 'requirements.txt'), `${requirements.join('\n')}\n`);
    // Their endpoints have the same names, so each has an environment of its own.
    const rows = JSON.parse(await stack.tool('deploy', folder, '--env', name, '--json')) as { id: string; name: string }[];
    for (const each of endpoints) await mustServe(t, stack, rows.find((row) => row.name === each)?.id ?? '', abilities);
  });
}
