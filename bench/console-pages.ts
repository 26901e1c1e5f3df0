/**
 * What open pages of the console cost while nothing happens: a real page's requests are recorded in Chromium, then as many pages repeat
 * them, each with its own stream and at its own time. Processor time is that of the scheduler, the gateway and the agent.
 *
 *   node bench/console-pages.ts [--pages 200] [--seconds 120] [--settle 15] [--path /]
 *
 * Prints one JSON document: percent of a core, without pages and with them. It needs /usr/bin/chromium.
 */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs, promisify } from 'node:util';

import { chromium } from 'playwright-core';

import { coresBetween, cpuByRole } from './processes.ts';
import { startStack, type Stack } from './stack.ts';

const CHROMIUM = '/usr/bin/chromium';
/** Streams that one session may have. */
const STREAMS_OF_A_SESSION = 10;
const HEADERS = { 'capstan-console': '/console', 'content-type': 'application/json' };

const { values } = parseArgs({
  options: {
    pages: { type: 'string', default: '200' },
    seconds: { type: 'string', default: '120' },
    path: { type: 'string', default: '/' },
    settle: { type: 'string', default: '15' },
  },
});
const pages = Number(values.pages);
const lengthMs = Number(values.seconds) * 1_000;

interface Call {
  /** Since the recording began, ms. */
  readonly at: number;
  readonly method: string;
  readonly path: string;
  readonly body: string | null;
}

/** Opens the page as a person would, and returns what it asks for in `lengthMs` after it has loaded. */
async function record({ url, apiKey }: Stack): Promise<readonly Call[]> {
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });
  try {
    const page = await browser.newPage();
    await page.goto(`${url}/console${values.path}`);
    await page.getByLabel('API key').fill(apiKey);
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Sign out' }).waitFor();
    await page.waitForTimeout(Number(values.settle) * 1_000);
    const calls: Call[] = [];
    const begun = performance.now();
    page.on('request', (request) => {
      const { pathname } = new URL(request.url());
      if (!pathname.endsWith('/events'))
        calls.push({ at: performance.now() - begun, method: request.method(), path: pathname, body: request.postData() });
    });
    await page.waitForTimeout(lengthMs);
    return calls;
  } finally {
    await browser.close();
  }
}

async function signIn({ url, apiKey }: Stack): Promise<string> {
  const response = await fetch(`${url}/console/api/session`, { method: 'POST', headers: HEADERS, body: JSON.stringify({ apiKey }) });
  return response.headers.get('set-cookie')?.split(';', 1)[0] ?? '';
}

/** Reads the stream of changes until the end. */
async function follow({ url }: Stack, cookie: string, signal: AbortSignal): Promise<void> {
  const response = await fetch(`${url}/console/api/events`, { headers: { ...HEADERS, cookie }, signal });
  if (response.status !== 200 || response.body === null) throw new Error(`a stream was refused with status ${response.status}`);
  response.body.pipeTo(new WritableStream(), { signal }).catch(() => undefined);
}

/** Percent of a core by part, over `lengthMs`. */
async function measure(stack: Stack, meanwhile: () => Promise<void>): Promise<Readonly<Record<string, number>>> {
  const before = cpuByRole(stack.pid);
  const begun = performance.now();
  await Promise.all([meanwhile(), pause(lengthMs)]);
  const used = coresBetween(before, cpuByRole(stack.pid), (performance.now() - begun) / 1_000);
  return Object.fromEntries(Object.entries(used).map(([role, cores]) => [role, Math.round(cores * 10_000) / 100]));
}

await promisify(execFile)(process.execPath, [join(import.meta.dirname, '../console/build.mjs')]);
const stack = await startStack();
const ended = new AbortController();
try {
  const calls = await record(stack);
  const cookies: string[] = [];
  for (let n = 0; n < Math.ceil(pages / STREAMS_OF_A_SESSION); n++) cookies.push(await signIn(stack));
  const without = await measure(stack, () => Promise.resolve());
  const failures = new Map<number, number>();
  const repeat = async (n: number): Promise<void> => {
    const cookie = cookies[Math.floor(n / STREAMS_OF_A_SESSION)] ?? '';
    const shift = (n / pages) * lengthMs;
    await Promise.all(
      calls.map(async ({ at, method, path, body }) => {
        await pause((at + shift) % lengthMs);
        const { status } = await fetch(`${stack.url}${path}`, { method, headers: { ...HEADERS, cookie }, body });
        if (status !== 200) failures.set(status, (failures.get(status) ?? 0) + 1);
      }),
    );
  };
  const open = Array.from({ length: pages }, (_, n) => n);
  await Promise.all(open.map((n) => follow(stack, cookies[Math.floor(n / STREAMS_OF_A_SESSION)] ?? '', ended.signal)));
  const withPages = await measure(stack, async () => void (await Promise.all(open.map((n) => repeat(n)))));
  const callsAMinute = (calls.length * 60_000) / lengthMs;
  console.log(JSON.stringify({ pages, path: values.path, callsAMinute, failures: Object.fromEntries(failures), without, withPages }));
} finally {
  ended.abort();
  await stack.close();
}
