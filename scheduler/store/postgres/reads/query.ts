/** How a read asks the database: named statements, planned once for each connection, with rows as tuples. */
export interface Query {
  /** @param name of the statement, unique to its text. */
  <R extends readonly unknown[]>(name: string, text: string, values: readonly unknown[]): Promise<R[]>;
}

/** The reads of the store for one cell, as promises. */
export type AsyncReads<R> = { readonly [K in keyof R]: R[K] extends (...args: infer A) => infer T ? (...args: A) => Promise<T> : never };
