/** Asks a person at a terminal before something is deleted or replaced. */
import { stdin } from 'node:process';

import { pressedKey } from './key-press.ts';
import type { Terminal } from './terminal.ts';
import { ToolError } from './tool-error.ts';

/** @throws ToolError CONFLICT unless the answer is yes. */
export async function confirm(question: string, terminal: Terminal, hint = 'Press y to confirm; --yes does not ask.'): Promise<void> {
  terminal.progress(`${question} [y/N] `);
  const key = await pressedKey(stdin);
  terminal.line(`${question} [y/N] ${key === 'y' ? 'yes' : 'no'}`);
  if (key !== 'y') throw new ToolError('CONFLICT', 'nothing was changed', hint);
}
