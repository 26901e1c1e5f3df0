/** An agent as a process of its own, for tests that kill it: `node agent-process.ts <config as JSON>`. */
import { readConfig, type AgentConfigInput } from '../../agent/config.ts';
import { start } from '../../agent/start.ts';

await start(readConfig(JSON.parse(process.argv[2] ?? '{}') as AgentConfigInput, {}));
