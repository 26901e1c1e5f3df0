/** The operator's additions to the GPU table (docs/gpus.md): a JSON file, read once at start. */
import { readFile } from 'node:fs/promises';

import { z } from 'zod';

import { CapstanError } from '../lib/errors.ts';
import { messageOf } from '../lib/to-error.ts';
import { GpuTable } from '../lib/gpu-table.ts';

const name = z.string('must be a string').trim().min(1, 'must not be empty').max(128);
const group = z.string('must be a string').regex(/^[A-Z][A-Z0-9_]{1,63}$/, 'must contain only capital letters, digits and underscores');

const fileSchema = z.strictObject(
  {
    types: z
      .array(
        z.strictObject(
          {
            name,
            models: z.array(name, 'must be an array of product names').min(1, 'must name at least one product'),
            memoryGb: z.number('must be a number').positive('must be above 0'),
            groups: z.array(group, 'must be an array of groups').default([]),
          },
          'must be an object with the keys name, models, memoryGb and groups only',
        ),
        'must be an array',
      )
      .default([]),
    groups: z.record(group, z.array(name, 'must be an array of types'), 'must be an object of groups').default({}),
  },
  'must be an object with the keys types and groups only',
);

/**
 * Returns the table with the additions of the file; an empty path adds nothing. CONFIG names the file, the place in it
 * and the rule.
 */
export async function readGpuTable(path: string): Promise<GpuTable> {
  if (path === '') return new GpuTable();
  const parsed = fileSchema.safeParse(parse(path, await read(path)));
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const place = issue?.path.join('.') ?? '';
    throw refused(path, `${place === '' ? '' : `${place}: `}${issue?.message ?? 'is not valid'}`);
  }
  try {
    return new GpuTable(parsed.data);
  } catch (error) {
    if (error instanceof CapstanError) throw refused(path, error.message);
    throw error;
  }
}

async function read(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw refused(path, messageOf(error));
  }
}

function parse(path: string, text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw refused(path, `is not JSON: ${messageOf(error)}`);
  }
}

function refused(path: string, rule: string): CapstanError {
  return new CapstanError('CONFIG', `CAPSTAN_GPU_TABLE: ${path}: ${rule}`, { field: 'CAPSTAN_GPU_TABLE' });
}
