/** Runs one command, and converts whatever it throws to a message, a hint and an exit code. */
import { CommanderError } from 'commander';

import { allCommands, findCommand, type Found } from './commands.ts';
import { isGroup } from './command/command.ts';
import { readEnvironment } from '../terminal/config.ts';
import { currentSpelling } from './old-spellings.ts';
import { buildProgram } from './program.ts';
import { createTerminal, type Terminal } from '../terminal/terminal.ts';
import { confirm } from '../terminal/confirm.ts';
import { flagOption } from '../terminal/options.ts';
import { explain } from '../terminal/tool-error.ts';

const USAGE_EXIT = 2;

/** Runs the tool with these arguments and returns its exit code. */
async function main(given: readonly string[]): Promise<number> {
  const env = readEnvironment();
  const terminal = createTerminal({
    out: process.stdout,
    err: process.stderr,
    colours: (env.variables['NO_COLOR'] ?? '') === '' && env.variables['TERM'] !== 'dumb',
    tool: ['npx', 'start', 'capstan'].includes(env.variables['npm_lifecycle_event'] ?? '') ? 'npx capstan' : 'capstan',
  });
  const { args, moved } = currentSpelling(withHelpOption(given));
  // The notice is for people; a script's output is unchanged.
  if (moved !== undefined && process.stderr.isTTY)
    terminal.hint(`"${moved.from}" is now "${moved.to}"; the next version removes the old spelling`);
  const found = await findCommand(args);
  let code = 0;
  const program = buildProgram(found.root === undefined ? await allCommands() : [found.root], {
    async execute(command, invocation) {
      if (command.confirm !== undefined && !flagOption(invocation.options, 'yes') && terminal.isLive && process.stdin.isTTY)
        await confirm(command.confirm(invocation), terminal);
      code = (await command.run({ ...invocation, env, terminal })) ?? 0;
    },
  });
  try {
    await program.parseAsync(wordsOf(found), { from: 'user' });
    return code;
  } catch (error) {
    if (error instanceof CommanderError) return usage(error, found, terminal);
    const { message, hint, exitCode } = explain(error);
    terminal.fail(message);
    terminal.hint(hint);
    if ((env.variables['CAPSTAN_DEBUG'] ?? '') !== '') terminal.line(stackOf(error));
    return exitCode;
  }
}

/** `help node token` is `node token --help`. */
function withHelpOption(args: readonly string[]): readonly string[] {
  const [first, ...about] = args;
  return first === 'help' && about.length > 0 && about[0] !== 'help' ? [...about, '--help'] : args;
}

/** Replaces aliases by names. A word that is not a command is an error, also with --help after it. */
function wordsOf({ node, path, rest }: Found): string[] {
  const [next = ''] = rest;
  const group = node === undefined || isGroup(node);
  if (node !== undefined && group && next === 'help') return [...path, '--help'];
  const unknown = group && next !== '' && next !== 'help' && !next.startsWith('-');
  return [...path, ...(unknown ? [next] : rest)];
}

/** Returns the stack with those of its causes: the outermost error often only names the step. */
function stackOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause === undefined ? '' : `\ncaused by: ${stackOf(error.cause)}`;
  return `${error.stack ?? error.message}${cause}`;
}

/** Help and version are not errors. A missing command shows the help, and is an error. */
function usage(error: CommanderError, { path }: Found, terminal: Terminal): number {
  if (error.exitCode === 0) return 0;
  if (error.code === 'commander.help') return USAGE_EXIT;
  const [message = '', ...more] = error.message.replace(/^error: /, '').split('\n');
  terminal.fail(message);
  const suggestion = more.join(' ').replaceAll(/[()]/g, '');
  terminal.hint(`${suggestion === '' ? '' : `${suggestion} `}Usage: ${['capstan', ...path].join(' ')} --help`);
  return USAGE_EXIT;
}

// A reader that closes the pipe early (`capstan endpoints list | head -1`) is not an error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0);
  throw error;
});
// Nobody reads messages any more; the command still ends normally.
process.stderr.on('error', () => undefined);

process.exitCode = await main(process.argv.slice(2));
