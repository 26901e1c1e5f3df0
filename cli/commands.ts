/** All commands. A start loads the one it runs: the modules of the others would take half as long again. */
import type { Command } from './command.ts';

/** Made once: it is given the list that it is part of. */
let completionCommand: Command | undefined;

/** Name → command, in the order of the help. */
const commands: Readonly<Record<string, () => Promise<Command>>> = {
  up: async () => (await import('./commands/up.ts')).up,
  init: async () => (await import('./commands/init.ts')).init,
  run: async () => (await import('./commands/run.ts')).run,
  build: async () => (await import('./commands/build.ts')).build,
  deploy: async () => (await import('./commands/deploy.ts')).deploy,
  undeploy: async () => (await import('./commands/undeploy.ts')).undeploy,
  rollback: async () => (await import('./commands/builds.ts')).rollback,
  builds: async () => (await import('./commands/builds.ts')).builds,
  env: async () => (await import('./commands/env.ts')).environments,
  endpoints: async () => (await import('./commands/endpoints.ts')).endpoints,
  jobs: async () => (await import('./commands/jobs.ts')).jobs,
  logs: async () => (await import('./commands/logs.ts')).logs,
  workers: async () => (await import('./commands/workers.ts')).workers,
  nodes: async () => (await import('./commands/nodes.ts')).nodes,
  node: async () => (await import('./commands/node.ts')).node,
  webhooks: async () => (await import('./commands/webhooks.ts')).webhooks,
  keys: async () => (await import('./commands/keys.ts')).keys,
  account: async () => (await import('./commands/accounts.ts')).accounts,
  login: async () => (await import('./commands/login.ts')).login,
  logout: async () => (await import('./commands/login.ts')).logout,
  backup: async () => (await import('./commands/backup.ts')).backup,
  'master-key': async () => (await import('./commands/master-key.ts')).masterKey,
  doctor: async () => (await import('./commands/doctor.ts')).doctor,
  completion: async () => (completionCommand ??= (await import('./commands/completion.ts')).completion(allCommands)),
  scheduler: async () => (await import('./commands/scheduler.ts')).scheduler,
  gateway: async () => (await import('./commands/gateway.ts')).gateway,
  agent: async () => (await import('./commands/agent.ts')).agent,
  version: async () => (await import('./commands/version.ts')).version,
  start: async () => (await import('./commands/start.ts')).start,
};

/** The command of that name; undefined when there is none. */
export async function findCommand(name: string): Promise<Command | undefined> {
  return Object.hasOwn(commands, name) ? commands[name]?.() : undefined;
}

/** Every command, in the order of the help. */
export async function allCommands(): Promise<readonly Command[]> {
  return Promise.all(Object.values(commands).map((load) => load()));
}
