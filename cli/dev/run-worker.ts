/** Runs the functions of one worker file in Node for the development server: `run-worker.ts <root> <file>`, told and telling over its channel. */
import { registerHooks } from 'node:module';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

import { parameterNames } from '../../sdk/typescript/parameters.ts';
import { declarations, InputError, type FunctionDeclaration } from '../../sdk/typescript/sdk.ts';
import type { Order, Told } from './worker-process.ts';

const [, , root = '', file = ''] = process.argv;
const sdk = new URL('../../sdk/typescript/sdk.ts', import.meta.url).href;
const instances = new Map<string, Record<string, unknown>>();

// The same copy as here: its list of declarations is the one to look into.
registerHooks({
  resolve: (specifier, context, next) => (specifier === '@capstan/sdk' ? { url: sdk, shortCircuit: true } : next(specifier, context)),
});
process.once('disconnect', () => process.exit(0));
process.chdir(root);
try {
  await import(pathToFileURL(resolve(root, file)).href);
  process.on('message', (order: Order) => void serve(order));
  say({ t: 'ready' });
} catch (error) {
  process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  say({ t: 'failed', error: messageOf(error) });
}

async function serve(order: Order): Promise<void> {
  try {
    say({ t: 'ended', id: order.id, value: await collected(await call(order)) });
  } catch (error) {
    const isInput = error instanceof InputError || error instanceof Refused;
    if (!isInput) process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
    say({ t: 'threw', id: order.id, error: messageOf(error), input: isInput });
  }
}

/** The input does not fit. */
class Refused extends Error {}

function call(order: Order): unknown {
  const declared = find(order);
  const context = { jobId: order.id, endpointId: 'dev', attempt: 1, signal: new AbortController().signal, progress, s3Config: undefined };
  if (!declared.isClass) {
    const names = order.parameters ?? (order.whole ? undefined : parameterNames(declared.fn));
    const served = declared.served as (...args: unknown[]) => unknown;
    return served(...argumentsOf(order.input, names), context);
  }
  const made = (instances.get(order.function) ?? new (declared.fn as new () => object)()) as Record<string, unknown>;
  instances.set(order.function, made);
  const { method, ...rest } = order.input;
  const [only, ...others] = order.methods;
  const name = method === undefined && others.length === 0 ? only : method;
  if (typeof name !== 'string' || !order.methods.includes(name)) throw new Refused(`method must be one of ${order.methods.join(', ')}`);
  const fn = made[name] as (...args: unknown[]) => unknown;
  return fn.call(made, ...argumentsOf(method === undefined ? order.input : rest, parameterNames(fn)), context);
}

function find({ endpoint, route }: Order): FunctionDeclaration {
  const found = declarations()
    .find(({ name }) => name === endpoint)
    ?.functions.find((each) => route === null || (each.route?.method === route.method && each.route.path === route.path));
  if (found === undefined) throw new Error(`${file} did not declare the endpoint ${endpoint} when it ran`);
  return found;
}

function argumentsOf(input: Readonly<Record<string, unknown>>, names: readonly string[] | undefined): unknown[] {
  return names === undefined ? [input] : names.map((name) => input[name]);
}

async function collected(value: unknown): Promise<unknown> {
  if (typeof value !== 'object' || value === null) return value;
  if (Symbol.asyncIterator in value) {
    const all: unknown[] = [];
    for await (const each of value as AsyncIterable<unknown>) all.push(each);
    return all;
  }
  if (Symbol.iterator in value && 'next' in value) return [...(value as Iterable<unknown>)];
  return value;
}

function progress(value: unknown): void {
  process.stdout.write(`progress: ${JSON.stringify(value)}\n`);
}

function say(told: Told): void {
  process.send?.(told);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
