/** Deploys the kinds of projects to a service that is up, and prints a table: kind, lines, both forms of the address. See README.md. */
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { chromium, type Browser } from 'playwright-core';

import { deployed, deployedAsFound, formsOf, used, worked, type Field } from './field.ts';
import { webKinds, workerKinds, type WebKind, type WorkerKind } from './kinds.ts';

const { values } = parseArgs({ options: { projects: { type: 'string' } } });
// Examples read the environment as their users' programs do.
const { SERVICE_API_KEY: apiKey = '', CAPSTAN_URL: url = 'http://127.0.0.1:8080', CHROMIUM = '/usr/bin/chromium' } = process.env;

async function rowOf(field: Field, browser: Browser | undefined, kind: WebKind | WorkerKind): Promise<string> {
  const { projects } = values;
  const folder = projects === undefined ? undefined : join(projects, kind.kind);
  if (folder !== undefined && !existsSync(folder)) return `| ${kind.kind} | – | skipped: there is no ${folder} | – |`;
  const lines = folder === undefined ? String(kind.lines.length) : 'its own';
  const id =
    folder === undefined
      ? await deployed(field, kind)
      : await deployedAsFound(field, { kind: kind.kind, hasPage: !('jobs' in kind) }, folder);
  if ('jobs' in kind) {
    if (folder === undefined) await worked(field, id, kind.jobs);
    return `| ${kind.kind} | ${lines} | a worker: it has no page | jobs ${folder === undefined ? 'end' : 'not sent'} |`;
  }
  const seen: string[] = [];
  for (const [form, address] of Object.entries(formsOf(url, id))) {
    if (browser === undefined) seen.push(`skipped: there is no ${CHROMIUM}`);
    else
      await used(browser, address, folder === undefined ? kind.use : () => Promise.resolve()).then(
        () => seen.push(`${form}: works`),
        (error: unknown) => seen.push(`${form}: ${String(error)}`),
      );
  }
  return `| ${kind.kind} | ${lines} | ${seen.join(' | ')} |`;
}

/** The line in which the tool says why. */
function reasonOf(error: unknown): string {
  const { stderr = '' } = error as { readonly stderr?: string };
  return /^✗ (.*)$/m.exec(stderr)?.[1] ?? String(error);
}

const browser = existsSync(CHROMIUM) ? await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] }) : undefined;
const work = await mkdtemp(join(tmpdir(), 'capstan-field-'));
try {
  console.log('| Kind | Lines | By path | On its own host |\n|---|---|---|---|');
  for (const kind of [...webKinds, ...workerKinds]) {
    const row = rowOf({ url, apiKey, work, variables: process.env }, browser, kind);
    console.log(await row.catch((error: unknown) => `| ${kind.kind} | – | not deployed: ${reasonOf(error)} | – |`));
  }
} finally {
  await browser?.close();
  await rm(work, { recursive: true, force: true });
}
