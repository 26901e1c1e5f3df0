/**
 * Arrays of composite values in PostgreSQL's binary format (array_recv, record_recv): a batch's operations
 * travel as one parameter for each kind, without quoting, and bodies as the bytes that they are.
 */

/** Element types of a column, with the object ids that PostgreSQL fixes for them; `enum` is written as its label. */
const OIDS = { int4: 23, int8: 20, text: 25, bytea: 17 } as const;
export type ColumnType = keyof typeof OIDS;

/** Columns of a composite type, in order. */
export type Columns = readonly (readonly [name: string, type: ColumnType])[];

export type Value = number | string | Uint8Array | null;

const LEAST_BYTES = 4_096;
/** A buffer that grew beyond this is left to the garbage collector. */
const MAX_SPARE_BYTES = 1_048_576;
const MAX_SPARES = 32;
const HEADER_BYTES = 20;
const TWO_TO_32 = 2 ** 32;

/** A text as PostgreSQL can hold it. */
export function textWithoutNul(text: string): string {
  return text.includes('\0') ? text.replaceAll('\0', '\uFFFD') : text;
}

/**
 * Buffers of batches that were answered, for those to come. The garbage collector goes through the whole heap after so many new
 * bytes outside of it, which at full load were some megabytes every 100 ms.
 */
const spares: Buffer[] = [];

/** A buffer of at least so many bytes, whatever they hold. */
function takeBuffer(bytes: number): Buffer {
  const at = spares.findLastIndex((spare) => spare.byteLength >= bytes);
  return (at < 0 ? undefined : spares.splice(at, 1)[0]) ?? Buffer.allocUnsafeSlow(bytes);
}

function leaveBuffer(buffer: Buffer): void {
  if (buffer.byteLength >= LEAST_BYTES && buffer.byteLength <= MAX_SPARE_BYTES && spares.length < MAX_SPARES) spares.push(buffer);
}

const NO_BYTES = Buffer.alloc(0);

/** Gathers the rows of one composite type; {@link CompositeArray.encode} gives the parameter. */
export class CompositeArray {
  readonly #columns: Columns;
  #bytes: Buffer = NO_BYTES;
  #end = HEADER_BYTES;
  #rows = 0;

  constructor(columns: Columns) {
    this.#columns = columns;
  }

  get rows(): number {
    return this.#rows;
  }

  /** Appends a row: a value for each column, in the columns' order. */
  add(values: readonly Value[]): void {
    const columns = this.#columns;
    if (values.length !== columns.length) throw new Error(`a row has ${values.length} values for ${columns.length} columns`);
    const start = this.#reserve(8);
    this.#bytes.writeInt32BE(columns.length, start + 4);
    for (const [i, value] of values.entries()) {
      const type = (columns[i] as Columns[number])[1];
      const at = this.#reserve(4);
      this.#bytes.writeInt32BE(OIDS[type], at);
      this.#value(type, value);
    }
    this.#bytes.writeInt32BE(this.#end - start - 4, start);
    this.#rows++;
  }

  /**
   * The array as a binary parameter; null without rows.
   * @param oid object id of the composite type in this database.
   */
  encode(oid: number): Buffer | null {
    if (this.#rows === 0) return null;
    const header = this.#bytes;
    header.writeInt32BE(1, 0); // dimensions
    header.writeInt32BE(0, 4); // no null elements
    header.writeUInt32BE(oid, 8);
    header.writeInt32BE(this.#rows, 12);
    header.writeInt32BE(1, 16); // lower bound
    return header.subarray(0, this.#end);
  }

  /** Gives the memory back for other arrays, once nobody reads the parameter any more. */
  release(): void {
    leaveBuffer(this.#bytes);
    this.#bytes = NO_BYTES;
    this.#rows = 0;
    this.#end = HEADER_BYTES;
  }

  #value(type: ColumnType, value: Value): void {
    if (value === null) {
      const at = this.#reserve(4);
      this.#bytes.writeInt32BE(-1, at);
      return;
    }
    if (typeof value === 'number') {
      this.#number(type, value);
      return;
    }
    // A text of PostgreSQL holds no NUL; user code may put one into its error.
    const content = typeof value === 'string' ? textWithoutNul(value) : value;
    const size = typeof content === 'string' ? Buffer.byteLength(content) : content.byteLength;
    const at = this.#reserve(4 + size);
    this.#bytes.writeInt32BE(size, at);
    if (typeof content === 'string') this.#bytes.write(content, at + 4);
    else this.#bytes.set(content, at + 4);
  }

  /** Times and counts are whole numbers in the database; a fraction is dropped. */
  #number(type: ColumnType, value: number): void {
    const whole = Math.trunc(value);
    if (!Number.isSafeInteger(whole)) throw new RangeError(`${value} is not a number that the store can hold`);
    if (type === 'int4') {
      const at = this.#reserve(8);
      this.#bytes.writeInt32BE(4, at);
      this.#bytes.writeInt32BE(whole, at + 4);
      return;
    }
    const at = this.#reserve(12);
    this.#bytes.writeInt32BE(8, at);
    this.#bytes.writeInt32BE(Math.floor(whole / TWO_TO_32), at + 4);
    this.#bytes.writeUInt32BE(whole >>> 0, at + 8);
  }

  /** Makes room for so many bytes and returns where they begin. */
  #reserve(size: number): number {
    const at = this.#end;
    const end = at + size;
    if (end > this.#bytes.byteLength) {
      const grown = takeBuffer(Math.max(end, this.#bytes.byteLength * 2, LEAST_BYTES));
      this.#bytes.copy(grown, 0, 0, at);
      leaveBuffer(this.#bytes);
      this.#bytes = grown;
    }
    this.#end = end;
    return at;
  }
}
