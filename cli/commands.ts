/** All commands, in the order of the help. */
import type { Command } from './command.ts';
import { accounts } from './commands/accounts.ts';
import { agent } from './commands/agent.ts';
import { backup } from './commands/backup.ts';
import { build } from './commands/build.ts';
import { builds, rollback } from './commands/builds.ts';
import { completion } from './commands/completion.ts';
import { deploy } from './commands/deploy.ts';
import { doctor } from './commands/doctor.ts';
import { endpoints } from './commands/endpoints.ts';
import { environments } from './commands/env.ts';
import { gateway } from './commands/gateway.ts';
import { init } from './commands/init.ts';
import { jobs } from './commands/jobs.ts';
import { keys } from './commands/keys.ts';
import { login, logout } from './commands/login.ts';
import { logs } from './commands/logs.ts';
import { node } from './commands/node.ts';
import { nodes } from './commands/nodes.ts';
import { run } from './commands/run.ts';
import { scheduler } from './commands/scheduler.ts';
import { start } from './commands/start.ts';
import { undeploy } from './commands/undeploy.ts';
import { up } from './commands/up.ts';
import { version } from './commands/version.ts';
import { webhooks } from './commands/webhooks.ts';
import { workers } from './commands/workers.ts';

export const commands: readonly Command[] = [
  up,
  init,
  run,
  build,
  deploy,
  undeploy,
  rollback,
  builds,
  environments,
  endpoints,
  jobs,
  logs,
  workers,
  nodes,
  node,
  webhooks,
  keys,
  accounts,
  login,
  logout,
  backup,
  doctor,
  completion,
  scheduler,
  gateway,
  agent,
  version,
  start,
];
