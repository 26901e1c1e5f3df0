/** The kinds of projects, what declares each as an endpoint, and what must be seen in a browser. */
import type { Page } from 'playwright-core';

export interface WebKind {
  readonly kind: string;
  readonly registry: 'pypi' | 'npm';
  /** File that the lines are in: a new one, or one of the project, at whose end they go. */
  readonly file: string;
  readonly lines: readonly string[];
  /** Throws when the page does not do what it is for. */
  readonly use: (page: Page) => Promise<void>;
}

export interface WorkerKind {
  readonly kind: string;
  readonly registry: 'pypi';
  readonly file: string;
  readonly lines: readonly string[];
  /** Inputs that are sent together, and their outputs. */
  readonly jobs: readonly { readonly input: object; readonly output: unknown }[];
}

export const webKinds: readonly WebKind[] = [
  {
    kind: 'fastapi-jwt',
    registry: 'pypi',
    file: 'main.py',
    lines: ['from capstan import Endpoint', 'site = Endpoint(name="fastapi-jwt", app=app, public=True)'],
    async use(page) {
      await page.getByRole('button').click();
      await page.getByText('signed in as ada').waitFor();
    },
  },
  {
    kind: 'flask',
    registry: 'pypi',
    file: 'app.py',
    lines: ['from capstan import Endpoint', 'site = Endpoint(name="flask", app=app, public=True)'],
    async use(page) {
      const name = `Grace ${crypto.randomUUID()}`;
      await page.getByRole('textbox').fill(name);
      await page.getByRole('button').click();
      await page.getByRole('listitem').filter({ hasText: name }).waitFor();
      // The style sheet may come after the text of the page.
      await page.waitForLoadState('load');
      const colour: unknown = await page.evaluate('getComputedStyle(document.body).color');
      if (colour !== 'rgb(1, 2, 3)') throw new Error('the style sheet was not found');
    },
  },
  {
    kind: 'express-typescript',
    registry: 'npm',
    file: 'capstan.ts',
    lines: [
      "import { endpoint } from '@capstan/sdk';",
      "export default endpoint({ name: 'express-typescript', app: 'dist/server.js', build: 'npm run build', public: true });",
    ],
    async use(page) {
      await page.getByRole('button').click();
      await page.getByRole('listitem').filter({ hasText: 'milk' }).first().waitFor();
    },
  },
  {
    kind: 'hono',
    registry: 'npm',
    file: 'capstan.js',
    lines: ["import { endpoint } from '@capstan/sdk';", "export default endpoint({ name: 'hono', app: 'server.js', public: true });"],
    async use(page) {
      await page.getByRole('button').click();
      await page.getByText('42').waitFor();
    },
  },
  {
    kind: 'sse',
    registry: 'pypi',
    file: 'main.py',
    lines: ['from capstan import Endpoint', 'site = Endpoint(name="sse", app=app, public=True)'],
    async use(page) {
      await page.getByText('event 2').waitFor();
    },
  },
  {
    kind: 'mcp',
    registry: 'pypi',
    file: 'server.py',
    lines: ['from capstan import Endpoint', 'site = Endpoint(name="mcp", app=app, public=True)'],
    async use(page) {
      await page.getByRole('button').click();
      await page.getByText('5', { exact: true }).waitFor();
    },
  },
  {
    kind: 'streamlit',
    registry: 'pypi',
    file: 'capstan_site.py',
    lines: [
      'from capstan import Endpoint',
      'run = ["streamlit", "run", "page.py", "--server.port=$PORT", "--server.headless=true", "--global.developmentMode=false"]',
      'site = Endpoint(name="streamlit", command=run, public=True)',
    ],
    async use(page) {
      await page.getByRole('button', { name: 'Square' }).click();
      await page.getByText('The square is 9').waitFor();
    },
  },
  {
    kind: 'gradio',
    registry: 'pypi',
    file: 'page.py',
    lines: [
      'from capstan import Endpoint',
      'from fastapi import FastAPI',
      'site = Endpoint(name="gradio", app=gr.mount_gradio_app(FastAPI(), demo, path="/"), public=True)',
    ],
    async use(page) {
      await page.getByLabel('Name').fill('Ada');
      await page.getByRole('button', { name: 'Submit' }).click();
      await page.waitForFunction('[...document.querySelectorAll("textarea, input")].some(({ value }) => value === "Hello, Ada!")');
    },
  },
];

const program = (kind: string): readonly string[] => [
  'from capstan import Endpoint',
  `worker = Endpoint(name="${kind}", command=["python3", "handler.py"], load_balanced=False)`,
];

export const workerKinds: readonly WorkerKind[] = [
  {
    kind: 'worker',
    registry: 'pypi',
    file: 'capstan_worker.py',
    lines: program('worker'),
    jobs: [{ input: { text: 'loud' }, output: { shout: 'LOUD' } }],
  },
  {
    kind: 'worker-stream',
    registry: 'pypi',
    file: 'capstan_worker.py',
    lines: program('worker-stream'),
    jobs: [{ input: { text: 'one two' }, output: [{ word: 'one' }, { word: 'two' }] }],
  },
  {
    kind: 'worker-concurrent',
    registry: 'pypi',
    file: 'capstan_worker.py',
    lines: program('worker-concurrent').map((line) => line.replace('load_balanced', 'workers=(1, 1), max_concurrency=2, load_balanced')),
    jobs: [
      { input: { n: 1 }, output: { beside: true } },
      { input: { n: 2 }, output: { beside: true } },
    ],
  },
];
