/** The identity of this node at its scheduler; stored in `<data>/agent/node.json`, readable by its owner only. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { z } from 'zod';

import { CELL_NAME, DEFAULT_CELL } from '../../lib/cells.ts';
import { makeFolder, replaceDurably, sweepTemporary } from '../../lib/durable.ts';
import { CapstanError } from '../../lib/errors.ts';
import { isErrno } from '../../lib/to-error.ts';

const identitySchema = z.object({
  nodeId: z.string().min(1),
  nodeSecret: z.string().min(1),
  cell: z.string().regex(CELL_NAME).default(DEFAULT_CELL),
});

/** `cell` is the one that the node joined. `nodeSecret` is never logged. */
export type Identity = Readonly<z.infer<typeof identitySchema>>;

export async function readIdentity(folder: string): Promise<Identity | undefined> {
  const path = identityPath(folder);
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return undefined;
    throw new CapstanError('DATA_DIR', `cannot read the node's identity: ${path}`, { cause: error });
  }
  try {
    return identitySchema.parse(JSON.parse(text));
  } catch (error) {
    throw new CapstanError('DATA_DIR', `the node's identity is damaged: ${path}; delete the file to join again`, { cause: error });
  }
}

/** Durable before it resolves: a node that lost its identity would join a second time. */
export async function writeIdentity(folder: string, identity: Identity): Promise<void> {
  const path = identityPath(folder);
  await makeFolder(folder, 0o700);
  await sweepTemporary(folder);
  await replaceDurably(path, `${JSON.stringify(identity)}\n`);
}

function identityPath(folder: string): string {
  return join(folder, 'node.json');
}
