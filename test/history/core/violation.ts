/** What a rule finds. */
export interface Violation {
  /** Name of the rule. */
  readonly rule: string;
  readonly detail: string;
  /** Ids of the jobs involved. */
  readonly jobs: readonly string[];
  /** Inputs involved that no job is known for. */
  readonly inputs?: readonly string[];
  /** Numbers of calls involved that belong to no job. */
  readonly calls?: readonly number[];
}
