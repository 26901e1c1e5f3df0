/**
 * The first day of a user: for each script of examples/first-day, the time from an empty folder to the first answer, with
 * an empty cache of packages and with a warm one, and of a deployment after one file has changed. The scripts run against a
 * fresh stack each, which is up before.
 *
 *   node bench/first-day.ts [--paths fastapi,zod] [--warm-only]
 *
 * Prints one JSON document per script. It needs the package indexes.
 */
import { execFile } from 'node:child_process';
import { appendFile, chmod, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { parseArgs, promisify } from 'node:util';

import { startStack, type Stack } from './stack.ts';

const run = promisify(execFile);
const root = join(import.meta.dirname, '..');
const scripts = join(root, 'examples/first-day');
/** s; the goals of the first answer with an empty and with a warm cache, and of a deployment of a changed file. */
const goals = { cold: 30, warm: 10, redeploy: 2 } as const;

const { values } = parseArgs({ options: { paths: { type: 'string' }, 'warm-only': { type: 'boolean', default: false } } });
const chosen =
  values.paths?.split(',') ?? (await readdir(scripts)).map((file) => basename(file, '.sh')).filter((name) => name !== 'README.md');

const folder = await mkdtemp(join(tmpdir(), 'capstan-first-day-'));
try {
  const programs = join(folder, 'bin');
  await mkdir(programs);
  await writeFile(join(programs, 'capstan'), `#!/bin/sh\nexec '${process.execPath}' '${join(root, 'cli/capstan.mjs')}' "$@"\n`);
  await chmod(join(programs, 'capstan'), 0o755);
  for (const name of chosen) {
    // Without it, the user's own cache: whatever it holds.
    const cache = values['warm-only'] ? null : join(folder, `cache-${name}`);
    const cold = cache === null ? null : await walk(name, programs, cache);
    const warm = await walk(name, programs, cache);
    const figures = { coldSeconds: cold?.answer ?? null, warmSeconds: warm.answer, redeploySeconds: warm.redeploy, goals };
    process.stdout.write(`${JSON.stringify({ path: name, ...figures, answer: warm.text })}\n`);
  }
} finally {
  await rm(folder, { recursive: true, force: true });
}

interface Walk {
  /** From the empty folder to the answer, s. */
  readonly answer: number;
  /** `capstan deploy` after a change of one file, s. */
  readonly redeploy: number;
  readonly text: string;
}

async function walk(name: string, programs: string, cache: string | null): Promise<Walk> {
  const stack: Stack = await startStack(folder, null);
  const project = await mkdtemp(join(folder, `${name}-`));
  try {
    const caches = cache === null ? {} : { XDG_CACHE_HOME: cache, npm_config_cache: join(cache, 'npm') };
    const own = { SERVICE_API_KEY: stack.apiKey, CAPSTAN_URL: stack.url, PATH: `${programs}:${process.env['PATH'] ?? ''}` };
    const env = { ...process.env, ...caches, ...own, CAPSTAN_DATA_DIR: join(project, '.capstan'), NO_COLOR: '1' };
    const [answer, { stdout }] = await timed(() => run('bash', [join(scripts, `${name}.sh`)], { cwd: project, env }));
    const source = (await readdir(project)).find((file) => /\.(py|ts)$/.test(file));
    if (source === undefined) throw new Error(`${name} has no source`);
    await appendFile(join(project, source), source.endsWith('.py') ? '# changed\n' : '// changed\n');
    const [redeploy] = await timed(() => run('capstan', ['deploy', ...flagsOf(name)], { cwd: project, env }));
    return { answer, redeploy, text: stdout.trim().split('\n').at(-1) ?? '' };
  } finally {
    await stack.close();
    await rm(project, { recursive: true, force: true });
  }
}

/** What the script deploys with. */
function flagsOf(name: string): string[] {
  return name === 'numpy-pillow' ? ['--bundle-base-packages'] : [];
}

async function timed<T>(work: () => Promise<T>): Promise<[seconds: number, result: T]> {
  const began = performance.now();
  const result = await work();
  return [Math.round(performance.now() - began) / 1_000, result];
}
