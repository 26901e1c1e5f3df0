/**
 * An agent as a process of its own, for tests that kill it: `node agent-process.ts <config as JSON>`. With a channel and
 * `--expose-gc` it replies to any message with the memory in use, bytes, once the unused was collected.
 */
import { readConfig, type AgentConfigInput } from '../../agent/config.ts';
import { start } from '../../agent/start.ts';

const given = JSON.parse(process.argv[2] ?? '{}') as AgentConfigInput;
await start(readConfig({ isolation: 'none', ...given }, {}));

process.on('message', () => {
  globalThis.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  process.send?.(heapUsed + external);
});
