/** Runs the parts as `core/restart.ts` decides, with processes, timers and log files. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

import { assertNever } from '../lib/errors.ts';
import { startChild, type Child, type ChildCommand, type PartRole } from './child.ts';
import { newState, nextDeadline, step, type Effect, type Event, type PartRule, type Refusal } from './core/restart.ts';
import { openLogFile, type LogFile } from './log-file.ts';
import { readNotice, splitLines, type Notice } from './log-line.ts';

export interface PartPlan extends PartRule {
  /** Created again for every start; `addresses` are those that parts have reported so far, by part. */
  command(addresses: ReadonlyMap<string, string>): ChildCommand;
}

export interface SupervisorOptions {
  readonly parts: readonly PartPlan[];
  readonly stopOrder: readonly string[];
  /** Folder of `<part>.log`; created when it is missing. */
  readonly logs: string;
  /** An event of a part. */
  notice(notice: Notice): void;
  /** The process of a part was started. */
  started?(part: string, pid: number): void;
  /** The process of a part has exited. */
  ended?(part: string): void;
  /** A warning that a part logged before the stop, or an error. */
  logged(part: string, notice: Notice): void;
}

export interface Supervisor {
  /** Resolves with the addresses by part when all parts are ready for the first time. Never settles otherwise. */
  readonly ready: Promise<ReadonlyMap<string, string>>;
  /** Resolves when no part runs any more; the refusal is the reason, unless the stop was requested. */
  readonly finished: Promise<Refusal | null>;
  /** Ends all parts in order; a second call kills them. */
  stop(): void;
  /** What each running part said that it is. */
  roles(): ReadonlyMap<string, PartRole>;
  /** Process ids of the running parts. */
  pids(): ReadonlyMap<string, number>;
}

export function supervise(options: SupervisorOptions): Supervisor {
  const plans = new Map(options.parts.map((plan) => [plan.name, plan]));
  const state = newState(options.parts, options.stopOrder);
  const children = new Map<string, Child>();
  const addresses = new Map<string, string>();
  const roles = new Map<string, PartRole>();
  mkdirSync(options.logs, { recursive: true, mode: 0o700 });
  const trouble = (text: string): void => options.notice({ level: 'warn', text });
  const open = ({ name }: PartPlan): LogFile => openLogFile(join(options.logs, `${name}.log`), undefined, undefined, trouble);
  const files = new Map(options.parts.map((plan): [string, LogFile] => [plan.name, open(plan)]));
  const ready = Promise.withResolvers<ReadonlyMap<string, string>>();
  const finished = Promise.withResolvers<Refusal | null>();
  let timer: NodeJS.Timeout | undefined;

  const feed = (event: Event): void => {
    step(state, event, performance.now()).forEach(carryOut);
    clearTimeout(timer);
    const deadline = nextDeadline(state);
    timer = deadline === null ? undefined : setTimeout(() => feed({ type: 'tick' }), Math.max(0, Math.ceil(deadline - performance.now())));
  };

  const spawnPart = (part: string): void => {
    const plan = plans.get(part);
    if (plan === undefined) throw new Error(`no plan for the part ${part}`);
    const lines = splitLines((line) => {
      files.get(part)?.write(`${line}\n`);
      const notice = readNotice(line);
      // Parts that end report it to each other, and would reconnect.
      if (notice !== null && (notice.level === 'error' || !state.stopping)) options.logged(part, notice);
    });
    const child = startChild(plan.command(addresses), {
      ready: (address) => {
        addresses.set(part, address);
        feed({ type: 'ready', part });
      },
      role: (role) => roles.set(part, role),
      exited: (how, refusal) => {
        lines.end();
        children.delete(part);
        roles.delete(part);
        options.ended?.(part);
        feed({ type: 'exited', part, how, refusal });
      },
      printed: (chunk) => lines.push(chunk),
    });
    children.set(part, child);
    if (child.pid !== undefined) options.started?.(part, child.pid);
  };

  const carryOut = (effect: Effect): void => {
    switch (effect.type) {
      case 'spawn':
        return spawnPart(effect.part);
      case 'kill':
        return children.get(effect.part)?.kill(effect.signal);
      case 'all-ready':
        return ready.resolve(addresses);
      case 'restarted':
        return options.notice({ level: 'info', text: `the ${effect.part} is running again` });
      case 'warn':
        return options.notice({ level: 'warn', text: effect.text });
      case 'finished':
        for (const file of files.values()) file.close();
        return finished.resolve(effect.refusal);
      default:
        return assertNever(effect);
    }
  };

  feed({ type: 'begin' });
  return {
    ready: ready.promise,
    finished: finished.promise,
    stop: () => feed({ type: 'stop' }),
    roles: () => roles,
    pids: () => new Map([...children].flatMap(([part, child]) => (child.pid === undefined ? [] : [[part, child.pid]]))),
  };
}
