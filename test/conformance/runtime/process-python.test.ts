import { processRuntime, shared } from './hosts.ts';
import { python } from './languages.ts';
import { runtimeConformance } from './suite.ts';

runtimeConformance('process/python', shared(processRuntime({ python: 1 })), python, { atOnce: 12 });
