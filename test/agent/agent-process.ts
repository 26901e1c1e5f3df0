/** An agent as a process of its own, for tests that kill it: `node agent-process.ts <config as JSON>`. */
import { parseConfig } from '../../agent/config.ts';
import { start } from '../../agent/start.ts';

await start(parseConfig(JSON.parse(process.argv[2] ?? '{}')));
