/** An agent as a process of its own, for tests that kill it: `node agent-process.ts <config as JSON>`. */
import { readConfig, type AgentConfigInput } from '../../agent/config.ts';
import { start } from '../../agent/start.ts';

const given = JSON.parse(process.argv[2] ?? '{}') as AgentConfigInput;
await start(readConfig({ isolation: 'none', ...given }, {}));
