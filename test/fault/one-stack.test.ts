/** Faults of workers and builds, which the parts of a stack outlive: all cases share it. */
import './damaged-build.ts';
import './neighbours.ts';
import './worker.ts';
