/**
 * Assembles classic BPF, the language of seccomp filters (Linux: Documentation/userspace-api/seccomp_filter.rst).
 * A program reads 32-bit words of the call into one accumulator, compares them and returns an action. Jumps go forward only,
 * at most 255 instructions far.
 */

export type Instruction =
  /** Loads the 32-bit word at this offset, bytes, of the call's description. */
  | { readonly kind: 'load'; readonly offset: number }
  /** Keeps the bits of the accumulator that the mask has. */
  | { readonly kind: 'and'; readonly mask: number }
  /** Compares the accumulator, unsigned, and jumps; without a label execution goes on with the next instruction. */
  | { readonly kind: 'jump'; readonly test: keyof typeof TESTS; readonly value: number; readonly yes?: string; readonly no?: string }
  | { readonly kind: 'return'; readonly action: number }
  /** Names the next instruction. */
  | { readonly kind: 'label'; readonly name: string };

/** `equal`: the same value; `atLeast`: the same or greater; `anyBit`: has at least one bit of the value. */
const TESTS = { equal: 0x15, atLeast: 0x35, anyBit: 0x45 } as const;
const LOAD_WORD = 0x20;
const AND = 0x54;
const RETURN = 0x06;

/** Bytes of one `struct sock_filter`: code (16 bits), two jump distances (8 each), operand (32). */
export const INSTRUCTION_BYTES = 8;
const MAX_JUMP = 255;

/** Returns the program as an array of `struct sock_filter`, little-endian. Throws for an unknown, backward or too far label. */
export function assemble(program: readonly Instruction[]): Uint8Array {
  const positions = new Map<string, number>();
  let length = 0;
  for (const instruction of program) {
    if (instruction.kind === 'label') positions.set(instruction.name, length);
    else length += 1;
  }
  const bytes = new Uint8Array(length * INSTRUCTION_BYTES);
  const view = new DataView(bytes.buffer);
  let at = 0;
  const distance = (label: string | undefined): number => {
    if (label === undefined) return 0;
    const position = positions.get(label);
    if (position === undefined) throw new Error(`seccomp program: label ${label} is not defined`);
    const jump = position - at - 1;
    if (jump < 0 || jump > MAX_JUMP)
      throw new Error(`seccomp program: label ${label} is ${jump} instructions away, allowed are 0 to ${MAX_JUMP}`);
    return jump;
  };
  const write = (code: number, operand: number, yes: number, no: number): void => {
    const offset = at * INSTRUCTION_BYTES;
    view.setUint16(offset, code, true);
    view.setUint8(offset + 2, yes);
    view.setUint8(offset + 3, no);
    view.setUint32(offset + 4, operand, true);
    at += 1;
  };
  for (const instruction of program) {
    switch (instruction.kind) {
      case 'load':
        write(LOAD_WORD, instruction.offset, 0, 0);
        break;
      case 'and':
        write(AND, instruction.mask, 0, 0);
        break;
      case 'jump':
        write(TESTS[instruction.test], instruction.value, distance(instruction.yes), distance(instruction.no));
        break;
      case 'return':
        write(RETURN, instruction.action, 0, 0);
        break;
      case 'label':
        break;
    }
  }
  return bytes;
}
