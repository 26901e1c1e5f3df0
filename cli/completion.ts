/** Completion scripts, made from the tree of commands. */
import type { Command } from './command.ts';

interface Completed {
  readonly name: string;
  readonly summary: string;
  readonly options: readonly { readonly flag: string; readonly description: string }[];
  /** Its first argument is a file or folder. */
  readonly takesFolder: boolean;
}

export function completionScript(shell: 'bash' | 'zsh' | 'fish', commands: readonly Command[]): string {
  const shown = commands.filter(({ hidden }) => hidden !== true).map(completed);
  switch (shell) {
    case 'bash':
      return bash(shown);
    case 'zsh':
      // zsh runs completions written for bash.
      return `autoload -U +X bashcompinit && bashcompinit\n${bash(shown)}`;
    case 'fish':
      return fish(shown);
    default:
      throw new TypeError('no such shell');
  }
}

function completed({ name, summary, options = [], arguments: args = [] }: Command): Completed {
  return {
    name,
    summary,
    options: options.flatMap(({ flags, description }) =>
      [...flags.matchAll(/(?:^|\s)(--[\w-]+)/g)].map(([, flag = '']) => ({ flag, description })),
    ),
    takesFolder: args[0]?.name === 'folder',
  };
}

function bash(commands: readonly Completed[]): string {
  const cases = commands.map(
    ({ name, options, takesFolder }) =>
      `    ${name}) words="${[...options.map(({ flag }) => flag), '--help'].join(' ')}"${takesFolder ? '; [[ $word == -* ]] || folders=1' : ''} ;;\n`,
  );
  return `_capstan() {
  local word="\${COMP_WORDS[COMP_CWORD]}" words="" folders=""
  if [ "$COMP_CWORD" -eq 1 ]; then words="${commands.map(({ name }) => name).join(' ')} help"
  else case "\${COMP_WORDS[1]}" in
${cases.join('')}  esac; fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  if [ -n "$folders" ]; then COMPREPLY+=($(compgen -d -- "$word")); fi
}
complete -F _capstan capstan`;
}

function fish(commands: readonly Completed[]): string {
  const names = commands.map(({ name }) => name).join(' ');
  const lines = commands.flatMap(({ name, summary, options, takesFolder }) => [
    `complete -c capstan -n "not __fish_seen_subcommand_from ${names}" -a ${name} -d ${quote(summary)}`,
    ...options.map(
      ({ flag, description }) =>
        `complete -c capstan -n "__fish_seen_subcommand_from ${name}" -l ${flag.slice(2)} -d ${quote(description)}`,
    ),
    ...(takesFolder ? [`complete -c capstan -n "__fish_seen_subcommand_from ${name}" -a "(__fish_complete_directories)"`] : []),
  ]);
  return ['complete -c capstan -f', ...lines].join('\n');
}

function quote(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", String.raw`\'`)}'`;
}
