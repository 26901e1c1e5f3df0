/**
 * Chooses the runtime in which a node would run a release:
 *
 *   a custom image, or a forced container            → container
 *   a command, without an image                      → process; with packages for Python as for its functions
 *   a base image (named, or by default)              → container if the node's engine has that image,
 *                                                      otherwise the host's Python (process) or Node (thread)
 *                                                      if it has the packages of the image
 *   a forced thread or process                       → that one
 *
 * Where the account's rule forbids that, a release that forces nothing runs in the next one that it allows: Node functions
 * in a process, functions in a container of their image.
 */
import { baseImageOf, defaultBaseImage, imageReference, type Language } from '../../../../lib/base-images.ts';
import { isAtLeast, type WorkerRuntime } from '../../../../lib/isolation.ts';
import { isolationObjection, NO_RULE, type IsolationRule } from './isolation-rule.ts';
import type { NodeFacts } from '../../state/node-facts.ts';
import type { Rejected } from '../../state/rejections.ts';

/** The properties of a release that decide its runtime. */
export interface RuntimeNeeds {
  /** Forced by the endpoint; empty for the node's best one. */
  readonly runtime: string;
  /** As the endpoint names it; empty for the default base image. */
  readonly imageName: string;
  readonly command: readonly string[];
  readonly functions: readonly { readonly module: string }[];
  /** Packages that the build left out because the base image has them. */
  readonly packages: readonly string[];
  /** Python version of the build's compiled packages, `3.12`; empty for any. */
  readonly python: string;
  readonly gpuIds: string;
}

/** Oldest Python that runs handlers. */
const oldestPython = { major: 3, minor: 8 };

/** A program that runs packages for Python, or Python itself. */
const PYTHON_PROGRAM = /^python3?(\.\d+)?$/;

/** Whether a release without an image runs in the Python of its host. */
function needsPython(needs: RuntimeNeeds): boolean {
  if (needs.functions.length > 0) return languageOf(needs) === 'python';
  // The build of a command notes what its Python packages require.
  return needs.command.length > 0 && (needs.python !== '' || needs.packages.length > 0 || PYTHON_PROGRAM.test(needs.command[0] ?? ''));
}

/** Language of the functions; null for a foreign worker. */
export function languageOf({ functions }: Pick<RuntimeNeeds, 'functions'>): Language | null {
  if (functions.length === 0) return null;
  return functions.some(({ module }) => module.endsWith('.py')) ? 'python' : 'node';
}

/** Returns the image of a release in the runtime `container`; empty if there is none. */
export function imageOf(needs: RuntimeNeeds): string {
  if (needs.imageName !== '') return needs.imageName;
  const language = languageOf(needs);
  return language === null ? '' : defaultBaseImage(language, needs.gpuIds !== '').name;
}

/** Runtime requirements of a release, computed once per placement. */
export interface RuntimeWish {
  readonly forced: string;
  readonly language: Language | null;
  readonly needsPython: boolean;
  /** Full reference of the image; empty if there is none. */
  readonly image: string;
  /** The image is a custom image. */
  readonly own: boolean;
  readonly packages: readonly string[];
  readonly python: string;
}

export function runtimeWish(needs: RuntimeNeeds): RuntimeWish {
  const image = imageOf(needs);
  return {
    forced: needs.runtime,
    language: languageOf(needs),
    needsPython: needsPython(needs),
    image: image === '' ? '' : imageReference(image),
    own: image !== '' && baseImageOf(image) === null,
    packages: needs.packages,
    python: needs.python,
  };
}

/** Returns the runtime on a node with these facts that the account's rule allows, or why there is none. */
export function chooseRuntime(wish: RuntimeWish, facts: NodeFacts, rule: IsolationRule = NO_RULE): WorkerRuntime | Rejected {
  const isFree = wish.forced === '';
  const onlyContained = isFree && wish.image !== '' && forbidsHost(rule);
  const first = preferredRuntime(onlyContained ? { ...wish, forced: 'container' } : wish, facts);
  if (typeof first !== 'string') return first;
  const objection = isolationObjection(rule, first, facts);
  if (objection === null || !isFree) return objection ?? first;
  const others: WorkerRuntime[] = first === 'thread' ? ['process'] : [];
  if (first !== 'container' && wish.image !== '') others.push('container');
  return others.find((other) => facts.runtimes.has(other) && isolationObjection(rule, other, facts) === null) ?? objection;
}

/** Whether the rule allows containers only, on every node. */
function forbidsHost({ least, runtimes }: IsolationRule): boolean {
  return runtimes.every((runtime) => runtime === 'container') || isAtLeast(least, 'container');
}

function preferredRuntime(wish: RuntimeWish, facts: NodeFacts): WorkerRuntime | Rejected {
  const engine = facts.runtimes.has('container');
  if (wish.own || wish.forced === 'container') return engine ? 'container' : missing('no container engine');
  if (wish.forced === '' && engine && wish.image !== '' && facts.images.has(wish.image)) return 'container';
  return onHost(wish, facts);
}

/** Without an image: decides by the host's own software. */
function onHost(wish: RuntimeWish, facts: NodeFacts): WorkerRuntime | Rejected {
  const runtime = wish.forced === 'thread' || (wish.forced === '' && wish.language === 'node') ? 'thread' : 'process';
  if (!facts.runtimes.has(runtime)) return missing(`the node does not offer the runtime ${runtime}`);
  if (!wish.needsPython) return runtime;
  if (facts.pythonVersion === '') return missing('no Python');
  const [major = 0, minor = 0] = facts.pythonVersion.split('.').map(Number);
  if (major < oldestPython.major || (major === oldestPython.major && minor < oldestPython.minor))
    return { reason: 'PYTHON_TOO_OLD', detail: `Python ${facts.pythonVersion}, needs ${oldestPython.major}.${oldestPython.minor}` };
  const mismatch = wish.python === '' ? '' : misfit(wish.python, `${major}.${minor}`, facts);
  if (mismatch !== '') return { reason: 'PYTHON_MISMATCH', detail: mismatch };
  if (wish.packages.every((name) => facts.packages.has(name))) return runtime;
  const lacking = wish.packages.filter((name) => !facts.packages.has(name));
  const engine = facts.runtimes.has('container') ? `; its engine does not have ${wish.image}` : '';
  return { reason: 'PACKAGE_MISSING', detail: `${lacking.join(', ')}${engine}` };
}

/** Returns why compiled packages for a Python on Linux x86_64 do not load here; empty if they do. */
function misfit(wanted: string, own: string, { arch, pythonVersion }: NodeFacts): string {
  if (own !== wanted) return `Python ${pythonVersion}, but the build's packages are for ${wanted} (build --python ${own})`;
  return arch === '' || arch === 'x64' ? '' : `${arch}, but the build's packages are for x86_64`;
}

function missing(detail: string): Rejected {
  return { reason: 'RUNTIME_MISSING', detail };
}
