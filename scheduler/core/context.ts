/** The context of a step: the state it changes, the time, and the operations and effects it adds. */
import type { CapstanError } from '../../lib/errors.ts';
import type { Op } from './ports/store.ts';

import { auditRow, type AuditEntry } from './audit.ts';
import type { CommandResult, BodyReservation, Effect, StepResult, Write, WriteSubject } from './effects.ts';
import type { Cause } from './events.ts';
import type { State } from './state.ts';
import type { Now } from './now.ts';
import { randomName } from './random.ts';

const RANDOM_LENGTH = 8;

export class StepContext {
  readonly state: State;
  readonly now: Now;
  readonly #result: StepResult;
  readonly #audit: AuditEntry | null;

  /** `audit`: the entry of a command, written with its changes. */
  constructor(state: State, now: Now, result: StepResult, audit: AuditEntry | null = null) {
    this.state = state;
    this.now = now;
    this.#result = result;
    this.#audit = audit;
  }

  /** The key behind a command, and its name; undefined where the entry of the audit log names none. */
  get author(): Pick<AuditEntry, 'key' | 'keyName'> | undefined {
    return this.#audit === null ? undefined : { key: this.#audit.key, keyName: this.#audit.keyName };
  }

  /** Adds an operation to commit. */
  write(op: Op, cause: Cause | null = null, subject: WriteSubject | null = null, reserved: BodyReservation | null = null): Write {
    return this.#result.write(op, cause, subject, reserved);
  }

  /** Adds an effect. With `write`, the effect is dropped if that operation is refused. */
  emit(effect: Effect, write: Write | null = null): void {
    this.#result.emit(effect, write);
  }

  /** Adds the reply to a unary call. With `write`, the reply is dropped if that operation is refused. */
  reply(call: number, result: CommandResult | CapstanError, write: Write | null = null): void {
    if (this.#audit !== null && !(result instanceof Error)) this.#writeAudit(this.#audit);
    this.#result.emit({ kind: 'command-result', call, result }, write);
  }

  #writeAudit(entry: AuditEntry): void {
    const { lastEntry, random } = this.state;
    const { key, value } = auditRow(lastEntry, randomName(random, RANDOM_LENGTH), this.now, entry);
    this.write({ kind: 'put', rowKind: 'audit', key, version: 1, value });
  }
}
