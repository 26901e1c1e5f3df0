/**
 * Messages that no honest peer sends, made from the descriptors of proto/ so that a new message or field is covered
 * as soon as it is there: missing and unknown branches, unknown ids, numbers at every edge, NaN, names of prototypes,
 * long texts, invalid UTF-8, unknown fields, and bytes that are no message at all.
 */
import { globSync } from 'node:fs';
import { join } from 'node:path';

import { fromBinary, isFieldSet } from '@bufbuild/protobuf';
import {
  FieldDescriptorProto_Label as Label,
  FieldDescriptorProto_Type as Type,
  FieldDescriptorProtoSchema,
  FileDescriptorProtoSchema,
  type DescriptorProto,
  type FieldDescriptorProto,
} from '@bufbuild/protobuf/wkt';
import { loadSync } from '@grpc/proto-loader';

const root = join(import.meta.dirname, '../..');

interface Method {
  readonly path: string;
  readonly requestStream: boolean;
  readonly responseStream: boolean;
  readonly requestType: { readonly type: { readonly name: string } };
  readonly responseType: { readonly type: { readonly name: string } };
}

const TEXTS = [
  '',
  ' ',
  'x',
  '\0',
  '😀',
  '__proto__',
  'constructor',
  'toString',
  '../..',
  '-1',
  'NaN',
  '{"a":',
  'f'.repeat(64),
  '127.0.0.1:1',
];
const NUMBERS = [0n, 1n, 2n, 3n, 1_000n, 65_535n, 2n ** 31n - 1n, 2n ** 31n, 2n ** 32n - 1n, 2n ** 53n, 2n ** 63n, 2n ** 64n - 1n];
const DOUBLES = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, -1, 0, 1e308];
const INVALID_UTF8 = Buffer.from([0xff, 0xc0, 0x80, 0xed, 0xa0, 0x80]);
const MAX_DEPTH = 6;

export class HostileMessages {
  readonly #types = new Map<string, DescriptorProto>();
  readonly #methods: Method[] = [];
  #state: number;
  readonly #known: readonly string[];

  /** `known`: ids and tokens that the receiver knows. */
  constructor(seed: number, known: readonly string[]) {
    this.#state = seed || 1;
    this.#known = known;
    const files = globSync('proto/capstan/v1/*.proto', { cwd: root }).map((file) => join(root, file));
    for (const definition of Object.values(loadSync(files, { includeDirs: [join(root, 'proto')] }))) {
      if (!('fileDescriptorProtos' in definition)) this.#methods.push(...(Object.values(definition) as unknown as Method[]));
      else
        for (const file of definition.fileDescriptorProtos as Buffer[]) this.#add(fromBinary(FileDescriptorProtoSchema, file).messageType);
    }
  }

  /** Paths of the methods whose client, or whose server, streams. */
  streams(by: 'client' | 'server'): string[] {
    return this.#methods.filter((method) => (by === 'client' ? method.requestStream : method.responseStream)).map(({ path }) => path);
  }

  /**
   * `count` messages of each branch that the stream of a method can carry, and some of none.
   * Every call of the same instance makes others.
   */
  *of(path: string, by: 'client' | 'server', count: number): Generator<{ readonly branch: string; readonly bytes: Buffer }> {
    const method = this.#methods.find((each) => each.path === path);
    if (method === undefined) throw new Error(`no method ${path}`);
    const type = this.#typeOf((by === 'client' ? method.requestType : method.responseType).type.name);
    for (const branch of [...this.#branches(type), '']) {
      for (let made = 0; made < count; made += 1) yield { branch, bytes: this.#message(type, branch, 0) };
    }
  }

  #add(types: readonly DescriptorProto[]): void {
    for (const type of types) {
      this.#types.set(type.name, type);
      this.#add(type.nestedType);
    }
  }

  #typeOf(name: string): DescriptorProto {
    const type = this.#types.get(name.split('.').at(-1) ?? '');
    if (type === undefined) throw new Error(`no message ${name}`);
    return type;
  }

  /** Names of the branches of a message's oneof, or of that of its items. */
  #branches(type: DescriptorProto): string[] {
    const own = type.field.filter(isBranch).map(({ name }) => name);
    if (own.length > 0) return own;
    return type.field
      .filter((field) => field.type === Type.MESSAGE)
      .flatMap((field) =>
        this.#typeOf(field.typeName)
          .field.filter(isBranch)
          .map(({ name }) => name),
      );
  }

  #message(type: DescriptorProto, branch: string, depth: number): Buffer {
    const parts: Buffer[] = [];
    const branches = type.field.filter(isBranch);
    const chosen = branches.find(({ name }) => name === branch) ?? (branch === '' ? undefined : this.#pick(branches));
    for (const field of type.field) {
      if (isBranch(field) ? field !== chosen : depth > 0 && this.#random() < 0.15) continue;
      const times = field.label === Label.REPEATED ? (this.#pick([1, 1, 2, depth === 0 ? 1 : 0]) ?? 1) : 1;
      for (let n = 0; n < times; n += 1) parts.push(this.#field(field, branch, depth));
    }
    if (this.#random() < 0.1) parts.push(tag(2_047, 2), varint(3n), Buffer.from('???'));
    const bytes = Buffer.concat(parts);
    // Cut in the middle: bytes that are no message.
    return depth === 0 && this.#random() < 0.03 ? bytes.subarray(0, Math.floor(bytes.length / 2)) : bytes;
  }

  #field({ number, type, typeName }: FieldDescriptorProto, branch: string, depth: number): Buffer {
    if (type === Type.MESSAGE) {
      const inner = depth >= MAX_DEPTH ? Buffer.alloc(0) : this.#message(this.#typeOf(typeName), branch, depth + 1);
      return Buffer.concat([tag(number, 2), varint(BigInt(inner.length)), inner]);
    }
    if (type === Type.STRING || type === Type.BYTES) {
      const inner = this.#text();
      return Buffer.concat([tag(number, 2), varint(BigInt(inner.length)), inner]);
    }
    if (type === Type.DOUBLE) {
      const inner = Buffer.alloc(8);
      inner.writeDoubleLE(this.#pick(DOUBLES) ?? 0);
      return Buffer.concat([tag(number, 1), inner]);
    }
    return Buffer.concat([tag(number, 0), varint(this.#pick(NUMBERS) ?? 0n)]);
  }

  #text(): Buffer {
    const chance = this.#random();
    if (chance < 0.45 && this.#known.length > 0) return Buffer.from(this.#pick(this.#known) ?? '');
    if (chance < 0.5) return INVALID_UTF8;
    if (chance < 0.53) return Buffer.from('long '.repeat(40_000));
    return Buffer.from(this.#pick(TEXTS) ?? '');
  }

  #pick<T>(from: readonly T[]): T | undefined {
    return from[Math.floor(this.#random() * from.length)];
  }

  /** The same numbers for the same seed (xorshift). */
  #random(): number {
    this.#state ^= this.#state << 13;
    this.#state ^= this.#state >>> 17;
    this.#state ^= this.#state << 5;
    return (this.#state >>> 0) / 2 ** 32;
  }
}

/** A seed of the environment, or a new one; said to the log so that a failure can be repeated. */
export function seedOf(log: (text: string) => void): number {
  const seed = Math.floor(Number(process.env['CAPSTAN_TEST_SEED'] ?? Math.random() * 2 ** 31)) || 1;
  log(`CAPSTAN_TEST_SEED=${seed}`);
  return seed;
}

function isBranch(field: FieldDescriptorProto): boolean {
  // An `optional` of proto3 is a oneof of its own.
  return isFieldSet(field, FieldDescriptorProtoSchema.field.oneofIndex) && !field.proto3Optional;
}

function tag(number: number, wireType: number): Buffer {
  return varint(BigInt((number << 3) | wireType));
}

function varint(value: bigint): Buffer {
  const bytes: number[] = [];
  let left = value;
  for (; left > 127n; left >>= 7n) bytes.push(Number(left & 127n) | 128);
  return Buffer.from([...bytes, Number(left)]);
}
