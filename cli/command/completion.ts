/**
 * Generates completion scripts from the tree of commands: names at each level, options, the values of options with a fixed
 * set, and names of endpoints, environments, nodes, keys and accounts, which `capstan complete` gets from the service.
 */
import { isGroup, optionsOf, type Command, type CommandNode } from './command.ts';
import { NAMED, type NamedKind } from './named.ts';

interface Flag {
  /** `-f` or `--follow`. */
  readonly name: string;
  readonly description: string;
  readonly choices: readonly string[];
  readonly names: Names;
}

/** Names that the service has; empty for other values. */
type Names = NamedKind | '';

/** One position in the tree. */
interface Level {
  /** Words before the position, each after a space: ` node token`; empty at the root. */
  readonly path: string;
  /** Names of subcommands, or the choices of the first argument, with their descriptions. */
  readonly words: readonly (readonly [word: string, description: string])[];
  readonly flags: readonly Flag[];
  /** Its first argument is a folder. */
  readonly takesFolder: boolean;
  /** What its first argument names. */
  readonly names: Names;
}

export function completionScript(shell: 'bash' | 'zsh' | 'fish', commands: readonly CommandNode[]): string {
  const root: Level = {
    path: '',
    words: [...wordsOf(commands), ['help', 'print the help of a command']],
    flags: [],
    takesFolder: false,
    names: '',
  };
  const levels = [root, ...commands.filter(isShown).flatMap((node) => levelsOf(node, ''))];
  switch (shell) {
    case 'bash':
      return bash(levels);
    case 'zsh':
      // zsh runs completions written for bash, once its own system is started: a start file may not have done so yet.
      return `(( \${+functions[compdef]} )) || { autoload -U compinit && compinit -D; }
autoload -U +X bashcompinit && bashcompinit\n${bash(levels)}`;
    case 'fish':
      return fish(levels);
    default:
      throw new TypeError('unknown shell');
  }
}

function isShown({ hidden }: CommandNode): boolean {
  return hidden !== true;
}

function wordsOf(nodes: readonly CommandNode[]): [string, string][] {
  return nodes.filter(isShown).map(({ name, summary }) => [name, summary]);
}

function levelsOf(node: CommandNode, above: string): Level[] {
  const path = `${above} ${node.name}`;
  if (!isGroup(node)) return [levelOf(node, path)];
  const here: Level = { path, words: wordsOf(node.commands), flags: [], takesFolder: false, names: '' };
  return [here, ...node.commands.filter(isShown).flatMap((member) => levelsOf(member, path))];
}

function levelOf(command: Command, path: string): Level {
  const [first] = command.arguments ?? [];
  return {
    path,
    words: (first?.choices ?? []).map((choice) => [choice, first?.description ?? '']),
    flags: optionsOf(command).flatMap(({ flags, description, choices = [] }) =>
      [...flags.matchAll(/(?:^|\s)(--?[\w-]+)/g)].map(([, name = '']) => ({
        name,
        description,
        choices,
        names: namesOf(/<([\w-]+)>/.exec(flags)?.[1]),
      })),
    ),
    takesFolder: first?.name === 'folder',
    names: namesOf(first?.name),
  };
}

function namesOf(value: string | undefined): Names {
  return NAMED.find((each) => each === value) ?? '';
}

/** Its variables avoid names that are special in zsh, such as `path` (the folders of PATH) and `words`. */
function bash(levels: readonly Level[]): string {
  const paths = levels.slice(1).map(({ path }) => `"${path}"`);
  const choices = levels.flatMap(({ path, flags }) =>
    flags.flatMap(({ name, choices }) => (choices.length === 0 ? [] : [`    "${path} ${name}") offered="${choices.join(' ')}" ;;\n`])),
  );
  const named = levels.flatMap(({ path, flags }) =>
    flags.flatMap(({ name, names }) => (names === '' ? [] : [`    "${path} ${name}") names=${names} ;;\n`])),
  );
  const cases = levels.map(({ path, words, flags, takesFolder, names }) => {
    const shown = [...words.map(([word]) => word), ...flags.map(({ name }) => name).filter((name) => name.startsWith('--')), '--help'];
    return `    "${path}") offered="${shown.join(' ')}"${takesFolder ? '; [[ $word == -* ]] || folders=1' : ''}${names === '' ? '' : `; [[ $word == -* ]] || names=${names}`} ;;\n`;
  });
  return `_capstan() {
  local word="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD-1]}" level="" offered="" folders="" names="" i
  local -a service=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$level \${COMP_WORDS[i]}" in
    ${paths.join('|')}) level="$level \${COMP_WORDS[i]}" ;;
    esac
    case "\${COMP_WORDS[i]}" in
    --env|--data-dir|--http-port) ((i + 1 < COMP_CWORD)) && service+=("\${COMP_WORDS[i]}" "\${COMP_WORDS[i+1]}") ;;
    esac
  done
  case "$level $before" in
${choices.join('')}${named.join('')}    *) case "$level" in
${cases.join('')}    esac ;;
  esac
  if [ -n "$names" ]; then offered="$offered $("\${COMP_WORDS[0]}" complete "$names" "\${service[@]}" 2>/dev/null)"; fi
  COMPREPLY=($(compgen -W "$offered" -- "$word"))
  if [ -n "$folders" ]; then COMPREPLY+=($(compgen -d -- "$word")); fi
}
complete -F _capstan capstan`;
}

function fish(levels: readonly Level[]): string {
  const lines = levels.flatMap(({ path, words, flags, takesFolder, names }) => {
    const at = `complete -c capstan -n ${quote(`__capstan_at ${quote(path)}`)}`;
    return [
      ...words.map(([word, description]) => `${at} -a ${word} -d ${quote(description)}`),
      ...flags.map(({ name, description, choices, names: ofFlag }) => {
        const flag = name.startsWith('--') ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`;
        return `${at} ${flag}${choices.length > 0 ? ` -xa ${quote(choices.join(' '))}` : ofFlag === '' ? '' : ` -xa ${quote(askFish(ofFlag))}`} -d ${quote(description)}`;
      }),
      ...(names === '' ? [] : [`${at} -a ${quote(askFish(names))}`]),
      ...(takesFolder ? [`${at} -a "(__fish_complete_directories)"`] : []),
    ];
  });
  return `function __capstan_at
  set -l path ''
  for word in (commandline -opc)[2..]
    contains -- "$path $word" ${levels
      .slice(1)
      .map(({ path }) => quote(path))
      .join(' ')}; and set path "$path $word"
  end
  test "$path" = "$argv[1]"
end
complete -c capstan -f
${lines.join('\n')}`;
}

function askFish(names: Names): string {
  return `(capstan complete ${names} 2>/dev/null)`;
}

function quote(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", String.raw`\'`)}'`;
}
