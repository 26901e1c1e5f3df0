import { CapstanError } from '../../lib/errors.ts';
import { cacheFolder } from '../command/build-options.ts';
import { printResult, type Command, type CommandGroup } from '../command/command.ts';
import { sizeText } from '../../terminal/size-text.ts';

const list: Command = {
  name: 'list',
  summary: "Show what the tool's cache on this machine contains.",
  json: true,
  examples: ['cache list'],
  async run(invocation) {
    const { env, terminal } = invocation;
    const { cacheContents } = await import('../../compiler/build/cache-contents.ts');
    const rows = await cacheContents(cacheFolder(env));
    printResult(invocation, rows, () => {
      const cells = rows.map(({ kind, bytes, folder }) => [kind, sizeText(bytes), folder]);
      terminal.table({ head: ['CONTENTS', 'SIZE', 'FOLDER'], rows: cells });
      terminal.hint(`Total: ${sizeText(rows.reduce((sum, { bytes }) => sum + bytes, 0))}. To clear it: capstan cache clear`);
    });
  },
};

const clear: Command = {
  name: 'clear',
  summary: "Delete the tool's cache on this machine, or one kind of its contents. Builds recreate it.",
  arguments: [{ name: 'contents', description: 'kind of contents, as `cache list` shows it; default: all', optional: true }],
  json: true,
  examples: ['cache clear', 'cache clear downloads'],
  async run(invocation) {
    const { args, env, terminal } = invocation;
    const { cacheContents, clearCache, CACHE_KINDS } = await import('../../compiler/build/cache-contents.ts');
    const kinds = args[0] === undefined ? CACHE_KINDS : CACHE_KINDS.filter((kind) => kind === args[0]);
    if (kinds.length === 0)
      throw new CapstanError('INVALID_ARGUMENT', `contents: ${JSON.stringify(args[0])} must be one of ${CACHE_KINDS.join(', ')}`, {
        field: 'contents',
      });
    const folder = cacheFolder(env);
    const rows = (await cacheContents(folder)).filter(({ kind }) => kinds.includes(kind));
    await clearCache(folder, kinds);
    const freed = rows.reduce((sum, { bytes }) => sum + bytes, 0);
    printResult(invocation, { freedBytes: freed }, () => terminal.done(`Deleted ${sizeText(freed)} from ${folder}`));
  },
};

/** `capstan cache`: what builds on this machine keep for the next ones. */
export const cache: CommandGroup = {
  name: 'cache',
  summary: "Show or delete the tool's cache of packages on this machine.",
  commands: [list, clear],
};
