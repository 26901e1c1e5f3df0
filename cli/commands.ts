/** All commands, in the order of the help. */
import type { Command } from './command.ts';
import { agent } from './commands/agent.ts';
import { deploy } from './commands/deploy.ts';
import { doctor } from './commands/doctor.ts';
import { endpoints } from './commands/endpoints.ts';
import { gateway } from './commands/gateway.ts';
import { jobs } from './commands/jobs.ts';
import { logs } from './commands/logs.ts';
import { nodes } from './commands/nodes.ts';
import { scheduler } from './commands/scheduler.ts';
import { start } from './commands/start.ts';
import { up } from './commands/up.ts';
import { version } from './commands/version.ts';
import { webhooks } from './commands/webhooks.ts';
import { workers } from './commands/workers.ts';

export const commands: readonly Command[] = [
  up,
  deploy,
  endpoints,
  jobs,
  logs,
  workers,
  nodes,
  webhooks,
  doctor,
  scheduler,
  gateway,
  agent,
  version,
  start,
];
