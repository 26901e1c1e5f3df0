/** The faults of one simulated run. */
import type { ClusterFaults } from './cluster.ts';

/** How rough the world is; every figure is a chance or a count. */
export interface FaultProfile extends ClusterFaults {
  readonly jobs: number;
  /** Chance of a crash at a commit of the scheduler. */
  readonly schedulerCrash: number;
  /** Chances, at a commit of the scheduler, of a full disk and of another scheduler that takes its cell. */
  readonly diskFull: number;
  readonly rival: number;
  /** Operations that are worth a second batch in flight, and bytes of inputs kept in memory. */
  readonly secondBatchWrites: number;
  readonly inputBytes: number;
  /** Crashes of agents, and broken connections, in the whole run. */
  readonly agentCrashes: number;
  readonly disconnects: number;
  /** Devices that are lost; most of them come back. */
  readonly deviceLosses: number;
  /** Breaks of the gateway's channel, and deaths of the gateway. */
  readonly channelBreaks: number;
  readonly gatewayCrashes: number;
  /** Deployments, and nodes drained, resumed and removed. */
  readonly changes: number;
  /** How often the account's rule for isolation changes. */
  readonly ruleChanges: number;
  /** Chance that the start of a worker fails. */
  readonly failingStarts: number;
  /** Chance that a worker dies under an attempt. */
  readonly workerLoss: number;
  /** Jobs kept in a window: small ones exercise refills. */
  readonly windowSize: number;
}
