/** All commands. A start loads only the command it runs: loading the others would add half of the time. */
import { isGroup, memberOf, type Command, type CommandNode } from './command/command.ts';

interface Entry {
  readonly load: () => Promise<CommandNode>;
  /** Accepted in place of the name; not shown. */
  readonly aliases?: readonly string[];
  /** Heading in the help. */
  readonly section: string;
}

const DEVELOP = 'Build and deploy:';
const MANAGE = 'Manage:';
const OPERATE = 'Operate the service:';
const OTHER = 'Other:';

/** Created once, because it receives the list that contains it. */
let completionCommand: Command | undefined;

/** Name → command, in the order of the help. */
const commands: Readonly<Record<string, Entry>> = {
  init: { section: DEVELOP, load: async () => (await import('./commands/init.ts')).init },
  run: { section: DEVELOP, load: async () => (await import('./commands/run.ts')).run },
  build: { section: DEVELOP, load: async () => (await import('./commands/build.ts')).build },
  deploy: { section: DEVELOP, load: async () => (await import('./commands/deploy.ts')).deploy },
  rollback: { section: DEVELOP, load: async () => (await import('./commands/builds.ts')).rollback },
  call: { section: DEVELOP, load: async () => (await import('./commands/call.ts')).call },
  status: { section: MANAGE, load: async () => (await import('./commands/status.ts')).status },
  endpoints: { section: MANAGE, aliases: ['endpoint'], load: async () => (await import('./commands/endpoints.ts')).endpoints },
  jobs: { section: MANAGE, aliases: ['job'], load: async () => (await import('./commands/jobs.ts')).jobs },
  open: { section: MANAGE, load: async () => (await import('./commands/open.ts')).open },
  logs: { section: MANAGE, load: async () => (await import('./commands/logs.ts')).logs },
  workers: { section: MANAGE, aliases: ['worker'], load: async () => (await import('./commands/workers.ts')).workers },
  'machine-types': {
    section: MANAGE,
    aliases: ['machine-type'],
    load: async () => (await import('./commands/machine-types.ts')).machineTypes,
  },
  releases: { section: MANAGE, load: async () => (await import('./commands/releases.ts')).releases },
  builds: { section: MANAGE, load: async () => (await import('./commands/builds.ts')).builds },
  env: {
    section: MANAGE,
    aliases: ['envs', 'environment', 'environments'],
    load: async () => (await import('./commands/env.ts')).environments,
  },
  keys: { section: MANAGE, aliases: ['key'], load: async () => (await import('./commands/keys.ts')).keys },
  secret: { section: MANAGE, aliases: ['secrets'], load: async () => (await import('./commands/secrets.ts')).secrets },
  alerts: { section: MANAGE, aliases: ['alert'], load: async () => (await import('./commands/alerts.ts')).alerts },
  webhooks: { section: MANAGE, aliases: ['webhook'], load: async () => (await import('./commands/webhooks.ts')).webhooks },
  audit: { section: MANAGE, load: async () => (await import('./commands/audit.ts')).audit },
  account: { section: MANAGE, aliases: ['accounts'], load: async () => (await import('./commands/accounts.ts')).accounts },
  node: { section: OPERATE, aliases: ['nodes'], load: async () => (await import('./commands/node.ts')).node },
  schedulers: { section: OPERATE, load: async () => (await import('./commands/schedulers.ts')).schedulers },
  cell: { section: OPERATE, aliases: ['cells'], load: async () => (await import('./commands/cells.ts')).cells },
  up: { section: OPERATE, load: async () => (await import('./commands/up.ts')).up },
  scheduler: { section: OPERATE, load: async () => (await import('./commands/scheduler.ts')).scheduler },
  gateway: { section: OPERATE, load: async () => (await import('./commands/gateway.ts')).gateway },
  agent: { section: OPERATE, load: async () => (await import('./commands/agent.ts')).agent },
  backup: { section: OPERATE, load: async () => (await import('./commands/backup.ts')).backup },
  store: { section: OPERATE, load: async () => (await import('./commands/store.ts')).store },
  'master-key': { section: OPERATE, load: async () => (await import('./commands/master-key.ts')).masterKey },
  doctor: { section: OPERATE, load: async () => (await import('./commands/doctor.ts')).doctor },
  cache: { section: OTHER, load: async () => (await import('./commands/cache.ts')).cache },
  login: { section: OTHER, load: async () => (await import('./commands/login.ts')).login },
  logout: { section: OTHER, load: async () => (await import('./commands/login.ts')).logout },
  whoami: { section: OTHER, load: async () => (await import('./commands/status.ts')).whoami },
  completion: {
    section: OTHER,
    load: async () => (completionCommand ??= (await import('./commands/completion.ts')).completion(allCommands)),
  },
  complete: { section: OTHER, load: async () => (await import('./commands/complete.ts')).complete },
  version: { section: OTHER, load: async () => (await import('./commands/version.ts')).version },
  start: { section: OTHER, load: async () => (await import('./commands/start.ts')).start },
};

function entryOf(word: string): Entry | undefined {
  if (Object.hasOwn(commands, word)) return commands[word];
  return Object.values(commands).find(({ aliases = [] }) => aliases.includes(word));
}

/** The heading of a top-level command in the help. */
export function sectionOf(name: string): string {
  return entryOf(name)?.section ?? OTHER;
}

/** Every top-level command, in the order of the help. */
export async function allCommands(): Promise<readonly CommandNode[]> {
  return Promise.all(Object.values(commands).map(({ load }) => load()));
}

/** The result of looking up a command line in the tree. */
export interface Found {
  /** Top-level command; undefined when the first word is not a command. */
  readonly root: CommandNode | undefined;
  /** The deepest command or group that the words name. */
  readonly node: CommandNode | undefined;
  /** Names of the commands from the root to it. */
  readonly path: readonly string[];
  /** The words after it. */
  readonly rest: readonly string[];
}

/** Looks up words in the tree, by name or alias. */
export async function findCommand(words: readonly string[]): Promise<Found> {
  const root = await entryOf(words[0] ?? '')?.load();
  if (root === undefined) return { root, node: undefined, path: [], rest: words };
  const path = [root.name];
  let node = root;
  let at = 1;
  for (; isGroup(node); at += 1) {
    const member = memberOf(node, words[at] ?? '');
    if (member === undefined) break;
    path.push(member.name);
    node = member;
  }
  return { root, node, path, rest: words.slice(at) };
}

/** Returns every command that can be run, with its path: `node token create`. */
export async function leafCommands(): Promise<ReadonlyMap<string, Command>> {
  const leaves = (node: CommandNode, path: string): [string, Command][] =>
    isGroup(node) ? node.commands.flatMap((member) => leaves(member, `${path} ${member.name}`)) : [[path, node]];
  return new Map((await allCommands()).flatMap((node) => leaves(node, node.name)));
}
