/** Finds a function in a Python module and reads its parameters, with this machine's Python; the module is not run. */
import { execFile, type ExecFileException } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { z } from 'zod';

import { CapstanError } from '../../lib/errors.ts';
import { CallStyle } from '../../proto/gen/capstan/v1/nodes.ts';
import type { Method } from './class-methods.ts';
import type { Found } from './exports.ts';
import type { Module } from './modules.ts';
import { described, UNREAD, type Parameter, type Reading } from './parameters.ts';

const READER = fileURLToPath(new URL('python/read_function.py', import.meta.url));
/** Reading takes a fraction of a second; the limit allows for an overloaded machine. */
const TIMEOUT_MS = 60_000;

/** A parameter as both readers of Python sources print it. */
export const pythonParameter = z
  .object({
    name: z.string(),
    required: z.boolean(),
    type: z.string(),
    sample: z.unknown(),
    schema: z.string().optional(),
    takes_body: z.boolean().optional(),
    default_value: z.string().optional(),
  })
  .transform(({ takes_body: takesBody, default_value: defaultValue, schema, ...more }): Parameter => ({
    ...more,
    ...(defaultValue === undefined ? {} : { defaultValue }),
    ...(schema === undefined ? {} : { schema }),
    ...(takesBody === true ? { takesBody } : {}),
  }));

const answerSchema = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('function'),
    style: z.enum(['positional', 'whole', 'unread']),
    parameters: z.array(pythonParameter),
    description: z.string().optional(),
  }),
  z.object({
    kind: z.literal('class'),
    description: z.string().optional(),
    line: z.number(),
    methods: z.array(
      z
        .object({ name: z.string(), parameters: z.array(pythonParameter) })
        // For examples of calls: the worker reads it itself.
        .transform((method): Method => ({ ...method, style: CallStyle.UNSPECIFIED })),
    ),
  }),
  z.object({ kind: z.literal('unclear') }),
  z.object({ kind: z.literal('missing'), names: z.array(z.string()) }),
  z.object({ kind: z.literal('syntax'), line: z.number(), message: z.string(), version: z.string() }),
]);

type ReaderResult = z.output<typeof answerSchema>;

export type FoundInPython =
  | Exclude<Found, { kind: 'function' | 'class' }>
  | { readonly kind: 'class'; readonly at: string; readonly methods: readonly Method[]; readonly description: string | undefined }
  | { readonly kind: 'read'; readonly reading: Reading };

/**
 * Without Python 3.8 or newer on this machine the function is not read: the worker always checks the input against the
 * function's own signature.
 * @throws CapstanError INVALID_MANIFEST with file and line for a syntax error.
 */
export async function findInPython(folder: string, module: Module, name: string, kind: 'queue' | 'load-balanced'): Promise<FoundInPython> {
  const answer = await runReader(folder, module.path, name, kind);
  switch (answer?.kind) {
    case undefined:
      return { kind: 'read', reading: UNREAD };
    case 'function':
      return { kind: 'read', reading: readingOf(answer) };
    case 'class':
      return { kind: 'class', at: `${module.path}:${answer.line}`, methods: answer.methods, description: answer.description };
    case 'unclear':
      return { kind: 'unclear' };
    case 'missing':
      return { kind: 'missing', names: answer.names, hidden: null };
    case 'syntax':
      throw new CapstanError('INVALID_MANIFEST', `${module.path}:${answer.line}: ${answer.message} (read by Python ${answer.version})`);
  }
}

function readingOf({ style, parameters, description }: Extract<ReaderResult, { kind: 'function' }>): Reading {
  switch (style) {
    case 'whole':
      return described({ style: CallStyle.WHOLE, parameters: [] }, description);
    case 'unread':
      return described(UNREAD, description);
    case 'positional':
      return described({ style: CallStyle.POSITIONAL, parameters }, description);
  }
}

/**
 * Returns undefined when no suitable Python exists.
 * @throws CapstanError UNAVAILABLE when it does not end: continuing without it would make the result of each attempt
 * differ.
 */
async function runReader(folder: string, path: string, name: string, kind: string): Promise<ReaderResult | undefined> {
  try {
    const { stdout } = await promisify(execFile)('python3', ['-I', READER, folder, path, name, kind], { timeout: TIMEOUT_MS });
    return answerSchema.safeParse(JSON.parse(stdout)).data;
  } catch (error) {
    if ((error as ExecFileException).killed === true)
      throw new CapstanError('UNAVAILABLE', `${join(folder, path)}: python3 did not read it within ${TIMEOUT_MS / 1000} s`);
    // No Python, or one too old: both are normal on a machine that only deploys.
    return undefined;
  }
}
