/**
 * What must hold of the control plane: deployments and rollbacks, settings, removed endpoints,
 * purges, quotas and webhook secrets. Checked from what the store took, from what commands were
 * answered, and by comparing the state's rows with the store's.
 */
import { isDeepStrictEqual } from 'node:util';

import { SECRET_OVERLAP_MS } from '../../scheduler/core/control/control.ts';
import type { CommandResult } from '../../scheduler/core/effects.ts';
import type { Command } from '../../scheduler/core/events.ts';
import type { AccountRow, DeployedInput, DeploymentRow } from '../../scheduler/core/state/control-rows.ts';
import type { EndpointConfig } from '../../scheduler/core/state/endpoints.ts';
import type { State } from '../../scheduler/core/state.ts';
import type { ControlKind, Op, Outcome } from '../../scheduler/core/ports/store.ts';
import type { SqliteEngine } from '../../scheduler/store/sqlite/engine.ts';
import { WORKER_QUOTA } from './deployed.ts';
import type { Ledger } from './invariants.ts';

/** Rows that the state and the store must agree on word by word. */
const compared = ['account', 'key', 'environment', 'endpoint', 'release', 'build', 'deployment'] as const satisfies ControlKind[];

export class ControlRules {
  readonly #ledger: Ledger;
  /** Endpoints whose removal was committed, and of them those that are gone. */
  readonly #removed = new Set<string>();
  readonly #gone = new Set<string>();
  /** Every deployment that was committed, oldest first, those swept since as well. */
  readonly #history: DeploymentRow[] = [];
  #account: AccountRow | null = null;

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
  }

  /** Endpoints that were removed. */
  get removed(): readonly string[] {
    return [...this.#removed];
  }

  /** Takes a command that is about to be handled; gives what is to be told its result. */
  asked(command: Command): (result: CommandResult | Error) => void {
    switch (command.kind) {
      case 'undeploy':
        return (result) => {
          if (result instanceof Error) return;
          for (const id of command.endpoints) if (!this.#removed.has(id)) fail(`the removal of ${id} was answered before it was stored`);
        };
      case 'purge': {
        const waited = this.#ledger.waiting(command.endpoint);
        return (result) => {
          if (result instanceof Error) return;
          for (const [job, left] of waited)
            if (job.state === 'IN_QUEUE' && job.left === left) fail(`job ${job.id} waited when the purge was asked for, and still does`);
        };
      }
      default:
        return () => undefined;
    }
  }

  /** Takes a committed operation; throws when it breaks a rule. */
  observe(op: Op, outcome: Outcome, wall: number): void {
    if (outcome.kind !== 'ok') return;
    if (op.kind === 'submit' && this.#removed.has(op.job.endpoint)) fail(`${op.job.endpoint} took job ${op.job.id} after it was removed`);
    if (op.kind !== 'put') return;
    const value: unknown = op.value === null ? null : JSON.parse(op.value);
    if (op.rowKind === 'endpoint') this.#endpointPut(op.key, value as EndpointConfig | null);
    else if (op.rowKind === 'deployment' && value !== null) this.#deployed(value as DeploymentRow);
    else if (op.rowKind === 'account' && value !== null) this.#accountPut(value as AccountRow, wall);
  }

  /** Holds after every step: quotas, and what endpoints and workers refer to. */
  check(state: State): void {
    let sum = 0;
    const names = new Set<string>();
    for (const { config } of state.endpoints.values()) {
      const release = state.releases.get(config.release);
      if (release === undefined) fail(`endpoint ${config.id} is of the release ${config.release}, which is not kept`);
      if (!state.builds.has(release.buildDigest)) fail(`release ${release.id} is of the build ${release.buildDigest}, which is not kept`);
      if (config.removing !== undefined) continue;
      if (names.has(config.name)) fail(`two endpoints have the name ${config.name}`);
      names.add(config.name);
      sum += config.workersMax;
    }
    if (sum > WORKER_QUOTA) fail(`the endpoints' workersMax come to ${sum}, the quota is ${WORKER_QUOTA}`);
    for (const worker of state.workers.values())
      if (!state.releases.has(worker.release)) fail(`worker ${worker.id} is of the release ${worker.release}, which is not kept`);
  }

  /** Holds whenever nothing is gathered: the state's rows are those of the store, and endpoints have what was deployed last. */
  checkRows(state: State, store: SqliteEngine): void {
    const rows = rowsOf(state);
    for (const kind of compared) {
      const stored = new Map(store.read('control', kind, '', 10_000).map(({ key, value }) => [key, value]));
      for (const [key, row] of rows[kind]) {
        const here = JSON.stringify(row);
        const there = stored.get(key);
        // Almost always word by word; else in another order of fields.
        if (here !== there && (there === undefined || !isDeepStrictEqual(JSON.parse(here), JSON.parse(there))))
          fail(`the ${kind} ${key} is ${here} here, ${there ?? 'nothing'} in the store`);
        stored.delete(key);
      }
      for (const key of stored.keys()) fail(`the ${kind} ${key} is in the store alone`);
    }
    for (const { config } of state.endpoints.values()) {
      const build = state.releases.get(config.release)?.buildDigest;
      const newest = this.#newest(config.id, Number.POSITIVE_INFINITY);
      if (newest?.build !== build)
        fail(`endpoint ${config.id} runs the build ${build ?? 'none'}, deployed last was ${newest?.build ?? 'none'}`);
    }
  }

  /** After healing: what was removed is gone, with its workers and its waiting jobs. */
  judge(state: State): void {
    for (const id of this.#removed) {
      if (!this.#gone.has(id) || state.endpoints.has(id)) fail(`the removed endpoint ${id} is still there`);
      for (const [job] of this.#ledger.waiting(id)) fail(`job ${job.id} of the removed endpoint ${id} still waits`);
    }
    for (const worker of state.workers.values())
      if (this.#removed.has(worker.endpoint)) fail(`the worker ${worker.id} of the removed endpoint ${worker.endpoint} is still there`);
  }

  #endpointPut(id: string, config: EndpointConfig | null): void {
    if (config === null) {
      if (!this.#removed.has(id)) fail(`endpoint ${id} is gone, but was never removed`);
      this.#gone.add(id);
      return;
    }
    if (config.removing !== undefined) this.#removed.add(id);
    else if (this.#removed.has(id)) fail(`endpoint ${id} was removed and is back`);
  }

  #deployed(row: DeploymentRow): void {
    const before = this.#history.at(-1)?.number ?? 0;
    if (row.number !== before + 1) fail(`deployment ${row.number} follows deployment ${before}`);
    if (row.cause === 'ROLLBACK') {
      for (const { id, build, input } of row.endpoints) {
        const present = this.#newest(id, row.number)?.build;
        const earlier = this.#history.findLast(({ endpoints }) => endpoints.some((each) => each.id === id && each.build !== present));
        const wanted = earlier?.endpoints.find((each) => each.id === id);
        if (wanted === undefined || wanted.build !== build || !isDeepStrictEqual(wanted.input, input))
          fail(
            `endpoint ${id} goes back from ${present ?? 'nothing'} to ${build}, not to ${wanted?.build ?? 'nothing'} as it was deployed`,
          );
      }
    }
    this.#history.push(row);
  }

  #accountPut(row: AccountRow, wall: number): void {
    const before = this.#account?.webhookSecretSealed ?? null;
    if (before !== null && row.webhookSecretSealed !== before) {
      const { sealed = null, until = 0 } = row.previousWebhookSecret ?? {};
      if (sealed !== before) fail(`the webhook secret ${before} was replaced and signs no more`);
      // The commit comes a little after the decision, in a database that stalls some seconds.
      const left = until - wall;
      if (left > SECRET_OVERLAP_MS || left < SECRET_OVERLAP_MS - 10_000)
        fail(`the webhook secret before the present one signs for ${left} ms`);
    }
    this.#account = row;
  }

  #newest(id: string, below: number): DeployedInput | undefined {
    const row = this.#history.findLast(({ number, endpoints }) => number < below && endpoints.some((each) => each.id === id));
    return row?.endpoints.find((each) => each.id === id);
  }
}

function rowsOf(state: State): Record<(typeof compared)[number], Map<string, unknown>> {
  const deployments = [...state.deployments].flatMap(([environment, rows]) =>
    rows.map((row) => [`${environment}/${String(row.number).padStart(10, '0')}`, row] as const),
  );
  return {
    account: new Map(state.accounts),
    key: new Map(state.keys),
    environment: new Map(state.environments),
    endpoint: new Map([...state.endpoints].map(([id, { config }]) => [id, config])),
    release: new Map(state.releases),
    build: new Map(state.builds),
    deployment: new Map(deployments),
  };
}

function fail(what: string): never {
  throw new Error(`invariant broken: ${what}`);
}
