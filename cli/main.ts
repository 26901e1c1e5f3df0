/** The tool: makes commander's tree of the commands, runs one, and turns whatever it throws into a line, a hint and an exit code. */
import { Command as Commander, CommanderError } from 'commander';

import { allCommands, findCommand } from './commands.ts';
import type { Command } from './command.ts';
import { readEnvironment, type Environment } from './config.ts';
import { createTerminal, type Terminal } from './terminal/terminal.ts';
import { explain } from './terminal/tool-error.ts';
import { toolVersion } from './version.ts';

const USAGE_EXIT = 2;

function build(commands: readonly Command[], terminal: Terminal, env: Environment, exit: (code: number) => void): Commander {
  const program = new Commander('capstan')
    .description('Turns your own GPU hosts into a serverless endpoint service.')
    .version(toolVersion(), '-V, --version', 'print the version')
    .helpCommand('help [command]', 'help about a command')
    .showSuggestionAfterError()
    .exitOverride()
    .configureOutput({ outputError: () => undefined });
  for (const command of commands) program.addCommand(leaf(command, terminal, env, exit), { hidden: command.hidden === true });
  return program;
}

function leaf(command: Command, terminal: Terminal, env: Environment, exit: (code: number) => void): Commander {
  const node = new Commander(command.name)
    .description(command.summary)
    .exitOverride()
    .configureOutput({ outputError: () => undefined });
  for (const { name, description, optional } of command.arguments ?? [])
    node.argument(optional === true ? `[${name}]` : `<${name}>`, description);
  for (const { flags, description } of command.options ?? []) node.option(flags, description);
  node.action(async () => {
    const code = await command.run({ args: node.args, options: node.opts(), env, terminal });
    exit(code ?? 0);
  });
  return node;
}

/** Runs the tool with these arguments and gives its exit code. */
async function main(args: readonly string[]): Promise<number> {
  const env = readEnvironment();
  const terminal = createTerminal({
    out: process.stdout,
    err: process.stderr,
    colours: (env.variables['NO_COLOR'] ?? '') === '' && env.variables['TERM'] !== 'dumb',
    tool: ['npx', 'start', 'capstan'].includes(env.variables['npm_lifecycle_event'] ?? '') ? 'npx capstan' : 'capstan',
  });
  let code = 0;
  const command = await findCommand(args[0] ?? '');
  const commands = command === undefined ? await allCommands() : [command];
  const program = build(commands, terminal, env, (given) => {
    code = given;
  });
  try {
    await program.parseAsync(helpful(args, commands), { from: 'user' });
    return code;
  } catch (error) {
    if (error instanceof CommanderError) return usage(error, command, terminal);
    const { message, hint, exitCode } = explain(error);
    terminal.fail(message);
    terminal.hint(hint);
    if ((env.variables['CAPSTAN_DEBUG'] ?? '') !== '') terminal.line(stackOf(error));
    return exitCode;
  }
}

/** Help about what is no command is a mistake like the command itself: commander shows the whole help instead. */
function helpful(args: readonly string[], commands: readonly Command[]): string[] {
  const [word, about] = args;
  const known = about === undefined || about === 'help' || commands.some(({ name }) => name === about);
  return word === 'help' && !known ? [about] : [...args];
}

/** The causes belong to it: the outermost error often only names the step. */
function stackOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause === undefined ? '' : `\ncaused by: ${stackOf(error.cause)}`;
  return `${error.stack ?? error.message}${cause}`;
}

/** Help and version are no errors; `capstan` alone shows its help, and that is a mistake of use. */
function usage(error: CommanderError, command: Command | undefined, terminal: Terminal): number {
  if (error.exitCode === 0) return 0;
  if (error.code === 'commander.help') return USAGE_EXIT;
  const [message = '', ...more] = error.message.replace(/^error: /, '').split('\n');
  terminal.fail(message);
  terminal.hint(
    more.length > 0
      ? more.join(' ').replaceAll(/[()]/g, '')
      : `capstan ${command === undefined ? '' : `${command.name} `}--help lists ${command === undefined ? 'the commands' : 'what it takes'}.`,
  );
  return USAGE_EXIT;
}

// A reader that went away (`capstan endpoints | head -1`) is no fault.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0);
  throw error;
});
// Nobody left to read a message is no reason to end in the middle of ending.
process.stderr.on('error', () => undefined);

process.exitCode = await main(process.argv.slice(2));
