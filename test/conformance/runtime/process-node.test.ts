import { processRuntime, shared } from './hosts.ts';
import { runtimeConformance } from './suite.ts';

runtimeConformance('process/node', shared(processRuntime({ node: 1 })), undefined, { atOnce: 12 });
