/** `capstan init --here`: writes the declaration of the application that the folder has. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { isErrno } from '../../lib/to-error.ts';
import { EXAMPLE } from '../discovery/discover.ts';
import { ToolError } from '../../terminal/tool-error.ts';
import { offerFor, type Offer } from '../application/offers.ts';

/** @throws CapstanError NOT_FOUND when it has none, ALREADY_EXISTS when the file is there. */
export async function declareHere(folder: string): Promise<Offer> {
  const offer = await offerFor(folder);
  if (offer === undefined) throw new ToolError('NOT_FOUND', `no application was found in ${folder}`, EXAMPLE);
  try {
    await writeFile(join(folder, offer.file), offer.text, { flag: 'wx' });
  } catch (cause) {
    if (!isErrno(cause, 'EEXIST')) throw cause;
    throw new ToolError(
      'ALREADY_EXISTS',
      `${offer.file} exists already`,
      `Add to it:\n    ${offer.text.trim().replaceAll('\n', '\n    ')}`,
      { cause },
    );
  }
  return offer;
}
