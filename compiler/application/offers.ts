/**
 * What a folder without endpoints could serve: an application of a web framework, a worker with a job loop of its own. The
 * sources are read as text and not run.
 */
import { readFile } from 'node:fs/promises';
import { basename, extname, join, posix } from 'node:path';

import { listFiles } from '../artifact/files.ts';

export interface Offer {
  /** `the FastAPI application app in main.py`. */
  readonly found: string;
  /** File that would declare it, relative to the folder. */
  readonly file: string;
  readonly text: string;
}

/** Files that people write are smaller; bundles and data are not. */
const MAX_BYTES = 1_000_000;

interface Source {
  readonly path: string;
  readonly text: string;
}

const PYTHON_APP = /^(\w+)\s*(?::[^=\n]+)?=\s*(?:\w+\.)?(FastAPI|Flask|Starlette|Litestar|Quart)\(/m;
/** Frameworks whose class has a common name: an import in the same file tells. */
const PYTHON_APP_OF: readonly (readonly [framework: string, module: RegExp, made: RegExp])[] = [
  ['Falcon', /^\s*(?:import|from)\s+falcon\b/m, /^(\w+)\s*(?::[^=\n]+)?=\s*(?:falcon\.)?(?:asgi\.)?App\(/m],
  ['BlackSheep', /^\s*(?:import|from)\s+blacksheep\b/m, /^(\w+)\s*(?::[^=\n]+)?=\s*(?:blacksheep\.)?Application\(/m],
];
/** A function without required parameters that makes the application. Each text has one reading: another would take exponential time. */
const FACTORY = /^def\s+((?:create|make|get|build)_app(?:lication)?)\(\s*(?:\w+(?!\w)[^,()=]*=[^,()]*(?:,\s*|(?=\))))*\)/m;
const MADE_INSIDE =
  /^\s+.*=\s*(?:\w+\.)?(FastAPI|Flask|Starlette|Litestar|Quart)\(|^\s+return\s+(?:\w+\.)?(FastAPI|Flask|Starlette|Litestar|Quart)\(/m;
const JOB_LOOP = /^[^#\n]*\brunpod\.serverless\.start\(/m;
const NODE_FRAMEWORK = /(?:from\s+|require\()['"](express|fastify|hono|koa|@nestjs\/core|@hono\/node-server)['"]/;
const LISTENS = /\.listen\(|\bserve\(|export default/;

/** The first of: an application in Python, Django, a job loop, an application in Node. Undefined when there is none. */
export async function offerFor(folder: string): Promise<Offer | undefined> {
  const sources = await sourcesOf(folder);
  const name = slugOf(basename(folder));
  const python = sources.filter(({ path }) => path.endsWith('.py'));
  return (
    first(python, (source) => webApp(source, name)) ??
    first(python, (source) => factory(source, name)) ??
    first(python, (source) => django(source, name)) ??
    first(python, (source) => jobLoop(source, name)) ??
    first(sources, (source) => nodeApp(source, name))
  );
}

/** Whether the folder has an image's recipe, which no declaration can be written for without the image's name. */
export async function hasDockerfile(folder: string): Promise<boolean> {
  return readFile(join(folder, 'Dockerfile')).then(
    () => true,
    () => false,
  );
}

function first(sources: readonly Source[], offer: (source: Source) => Offer | undefined): Offer | undefined {
  for (const each of sources) {
    const found = offer(each);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Nearest to the folder's root first. */
async function sourcesOf(folder: string): Promise<Source[]> {
  const { entries } = await listFiles(folder, { skip: (name, path) => name === 'node_modules' || path === 'python_packages' });
  const own = entries.filter(({ path, stat }) => /\.(py|[cm]?[jt]s)$/.test(path) && stat.isFile() && stat.size <= MAX_BYTES);
  const paths = own.map(({ path }) => path).sort((a, b) => a.split('/').length - b.split('/').length || (a < b ? -1 : 1));
  return Promise.all(paths.map(async (path) => ({ path, text: await readFile(join(folder, path), 'utf8') })));
}

function webApp({ path, text }: Source, name: string): Offer | undefined {
  const [, variable, framework] = PYTHON_APP.exec(text) ?? byImport(text);
  const module = moduleOf(path);
  if (variable === undefined || framework === undefined || module === undefined) return undefined;
  return pythonOffer(`the ${framework} application ${variable} in ${path}`, `name="${name}", app="${module}:${variable}"`);
}

function byImport(text: string): readonly (string | undefined)[] {
  for (const [framework, module, made] of PYTHON_APP_OF) {
    const [, variable] = module.test(text) ? (made.exec(text) ?? []) : [];
    if (variable !== undefined) return ['', variable, framework];
  }
  return [];
}

function factory({ path, text }: Source, name: string): Offer | undefined {
  const [, maker] = FACTORY.exec(text) ?? [];
  const [, assigned, returned] = MADE_INSIDE.exec(text) ?? [];
  const framework = assigned ?? returned;
  const module = moduleOf(path);
  if (maker === undefined || framework === undefined || module === undefined) return undefined;
  return pythonOffer(`${maker}() in ${path}, which makes a ${framework} application`, `name="${name}", app="${module}:${maker}()"`);
}

function django({ path, text }: Source, name: string): Offer | undefined {
  const module = moduleOf(path);
  if (!/get_[aw]sgi_application/.test(text) || !/^application\s*=/m.test(text) || module === undefined) return undefined;
  return pythonOffer(`the Django application in ${path}`, `name="${name}", app="${module}:application"`);
}

function jobLoop({ path, text }: Source, name: string): Offer | undefined {
  if (!JOB_LOOP.test(text)) return undefined;
  const command = `command=["python3", "-u", ${JSON.stringify(path)}], load_balanced=False`;
  return pythonOffer(`runpod.serverless.start in ${path}`, `name="${name}", ${command}`);
}

function nodeApp({ path, text }: Source, name: string): Offer | undefined {
  const [, framework] = NODE_FRAMEWORK.exec(text) ?? [];
  if (framework === undefined || !LISTENS.test(text) || extname(path) === '.py') return undefined;
  const declaration = `import { endpoint } from '@capstan/sdk';\nexport default endpoint({ name: '${name}', app: '${path}' });\n`;
  return { found: `an application of ${framework} in ${path}`, file: 'capstan.mjs', text: declaration };
}

function pythonOffer(found: string, settings: string): Offer {
  return { found, file: 'endpoints.py', text: `from capstan import Endpoint\nEndpoint(${settings})\n` };
}

/** The name by which Python imports a file from the folder; undefined when it has none. */
function moduleOf(path: string): string | undefined {
  const stem = posix
    .normalize(path)
    .replace(/\.py$/, '')
    .replace(/\/__init__$/, '');
  return stem.split('/').every((part) => /^[A-Za-z_]\w*$/.test(part)) ? stem.replaceAll('/', '.') : undefined;
}

/** A name that an endpoint may have. */
function slugOf(text: string): string {
  return (
    text
      .replaceAll(/[^A-Za-z0-9._-]+/g, '-')
      .replace(/^[^A-Za-z0-9]+/, '')
      .slice(0, 64) || 'api'
  );
}
