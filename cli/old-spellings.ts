/** Spellings of commands before they had subcommands. Accepted in this version, and removed with the next one. Pure. */

/** Matches when the words are alone or before an option. */
const BARE: Readonly<Record<string, string>> = {
  account: 'account get',
  builds: 'builds list',
  endpoints: 'endpoints list',
  env: 'env list',
  keys: 'keys list',
  'master-key': 'master-key status',
  'node token': 'node token create',
  'node tokens': 'node token list',
  nodes: 'node list',
  webhooks: 'webhooks list',
  'webhooks secret': 'webhooks secret get',
  workers: 'workers list',
};

/** Matches at the start of the command line. */
const MOVED: Readonly<Record<string, string>> = {
  'account quota': 'account set',
  'account show': 'account get',
  'endpoints show': 'endpoints get',
  'jobs show': 'jobs get',
  'master-key show': 'master-key status',
  'node revoke': 'node token revoke',
  undeploy: 'endpoints delete',
};

const HELP = new Set(['-h', '--help']);

export interface Spelling {
  readonly args: readonly string[];
  /** The old words and their replacement; undefined for a current spelling. */
  readonly moved?: { readonly from: string; readonly to: string };
}

/** Returns the command line in its current spelling. */
export function currentSpelling(args: readonly string[]): Spelling {
  const [first = '', second = ''] = args;
  // An option that became a word, and a word that became an option.
  if (first === 'webhooks' && second === 'secret' && args.includes('--rotate'))
    return replaced(args, { count: 2, from: 'webhooks secret --rotate', to: 'webhooks secret rotate', without: '--rotate' });
  if (first === 'webhooks' && second === 'redeliver' && args[2] === 'failed')
    return replaced(args, { count: 3, from: 'webhooks redeliver failed', to: 'webhooks redeliver --failed' });
  if (first === 'builds' && second !== '' && second !== 'list' && second !== 'help' && !second.startsWith('-'))
    return replaced(args, { count: 1, from: 'builds <endpoint>', to: 'builds list' });
  for (const count of [2, 1]) {
    const from = args.slice(0, count).join(' ');
    if (args.length < count) continue;
    const moved = own(MOVED, from);
    if (moved !== undefined) return replaced(args, { count, from, to: moved });
    const next = args[count];
    const bare = next === undefined || (next.startsWith('-') && !HELP.has(next)) ? own(BARE, from) : undefined;
    if (bare !== undefined) return replaced(args, { count, from, to: bare });
  }
  return { args };
}

/** The first `count` words, `from`, are now spelt `to`. `without`: an option that is removed. */
interface Replacement {
  readonly count: number;
  readonly from: string;
  readonly to: string;
  readonly without?: string;
}

function replaced(args: readonly string[], { count, from, to, without }: Replacement): Spelling {
  const rest = args.slice(count).filter((each) => each !== without);
  return { args: [...to.split(' '), ...rest], moved: { from, to } };
}

function own(table: Readonly<Record<string, string>>, key: string): string | undefined {
  return Object.hasOwn(table, key) ? table[key] : undefined;
}
