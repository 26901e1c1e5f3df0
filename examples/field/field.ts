/** Deploys one kind of project to a running service and uses it as its users would. */
import { execFile } from 'node:child_process';
import { appendFile, cp, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import type { Browser } from 'playwright-core';

import type { WebKind, WorkerKind } from './kinds.ts';

const own = join(import.meta.dirname, 'apps');
const tool = join(import.meta.dirname, '../../cli/main.ts');
const PAGE_MS = 60_000;

export interface Field {
  /** Base URL of the gateway. */
  readonly url: string;
  readonly apiKey: string;
  /** An empty folder for the copies of the projects. */
  readonly work: string;
  /** Variables of the tool. */
  readonly variables: NodeJS.ProcessEnv;
}

/** Copies a project of `apps/`, declares it, deploys it, and returns the endpoint's id. */
export async function deployed(field: Field, { kind, file, lines }: WebKind | WorkerKind): Promise<string> {
  const folder = await copyOf(field, kind, join(own, kind));
  await appendFile(join(folder, file), `\n${lines.join('\n')}\n`);
  return deploy(field, kind, folder);
}

/** The same with a project of yours, which `init --here` declares unless it is declared; a page is made public for the browser. */
export async function deployedAsFound(field: Field, { kind, hasPage }: { kind: string; hasPage: boolean }, from: string): Promise<string> {
  const folder = await copyOf(field, kind, from);
  const id = await deploy(field, kind, folder).catch(async () => {
    // Not declared: what else is wrong shows again.
    await capstan(field, folder, 'init', '--here');
    return deploy(field, kind, folder);
  });
  if (hasPage) await capstan(field, folder, 'endpoints', 'set', id, 'public=true', '--url', field.url);
  return id;
}

async function copyOf({ work }: Field, kind: string, from: string): Promise<string> {
  const folder = join(work, kind);
  await mkdir(folder, { recursive: true });
  await cp(from, folder, { recursive: true });
  return folder;
}

async function capstan({ apiKey, variables }: Field, cwd: string, ...args: readonly string[]): Promise<string> {
  const env = { ...variables, SERVICE_API_KEY: apiKey, NO_COLOR: '1' };
  return (await promisify(execFile)(process.execPath, [tool, ...args], { cwd, env })).stdout;
}

async function deploy(field: Field, kind: string, folder: string): Promise<string> {
  const stdout = await capstan(field, folder, 'deploy', folder, '--url', field.url, '--json');
  const [row] = JSON.parse(stdout) as { id: string }[];
  if (row === undefined) throw new Error(`${kind}: nothing was deployed`);
  return row.id;
}

/** The endpoint's addresses: below the gateway's own, and on a host of its own, which a browser finds at this machine. */
export function formsOf(url: string, id: string): Readonly<Record<'path' | 'host', string>> {
  return { path: `${url}/lb/${id}/`, host: `http://${id}.lb.localhost:${new URL(url).port}/` };
}

/** Opens the page and uses it. Throws when it does not do what it is for, when a script fails, or when a part of it is not found. */
export async function used(browser: Browser, address: string, use: WebKind['use']): Promise<void> {
  const context = await browser.newContext();
  context.setDefaultTimeout(PAGE_MS);
  const faults: string[] = [];
  try {
    const page = await context.newPage();
    page.on('pageerror', (error) => faults.push(`a script failed: ${error.message}`));
    page.on('response', (response) => {
      if (response.status() >= 400 && !response.url().endsWith('/favicon.ico')) faults.push(`${response.status()} for ${response.url()}`);
    });
    const answer = await page.goto(address);
    if (answer?.ok() !== true) throw new Error(`${address}: status ${answer?.status() ?? 'none'}`);
    await use(page).catch((error: unknown) => {
      throw new Error([String(error), ...faults].join('\n'));
    });
    if (faults.length > 0) throw new Error(faults.join('\n'));
  } finally {
    await context.close();
  }
}

/** Sends the jobs together and compares their outputs. */
export async function worked({ url, apiKey }: Field, id: string, jobs: WorkerKind['jobs']): Promise<void> {
  await Promise.all(
    jobs.map(async ({ input, output }) => {
      const answer = await fetch(`${url}/v2/${id}/runsync?wait=120000`, {
        method: 'POST',
        headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
        body: JSON.stringify({ input }),
      });
      const job = (await answer.json()) as { output?: unknown };
      if (JSON.stringify(job.output) !== JSON.stringify(output)) throw new Error(JSON.stringify(job));
    }),
  );
}
