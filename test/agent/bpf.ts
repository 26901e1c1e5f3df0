/** Runs classic BPF programs over one call, as the kernel does (written after linux/bpf_common.h, apart from the assembler). */

export interface Call {
  readonly architecture: number;
  readonly number: number;
  readonly args?: readonly bigint[];
}

const SOCK_FILTER_BYTES = 8;
const SECCOMP_DATA_BYTES = 64;

/** Returns the action of the filter for the call. Throws for anything that the kernel would refuse to load. */
export function runFilter(program: Uint8Array, call: Call): number {
  const data = new DataView(new ArrayBuffer(SECCOMP_DATA_BYTES));
  data.setInt32(0, call.number, true);
  data.setUint32(4, call.architecture, true);
  for (const [index, value] of (call.args ?? []).entries()) data.setBigUint64(16 + 8 * index, value, true);
  const code = new DataView(program.buffer, program.byteOffset, program.byteLength);
  let accumulator = 0;
  for (let at = 0; at < program.byteLength / SOCK_FILTER_BYTES; at += 1) {
    const offset = at * SOCK_FILTER_BYTES;
    const operand = code.getUint32(offset + 4, true);
    const jump = (holds: boolean): void => {
      at += code.getUint8(offset + (holds ? 2 : 3));
    };
    switch (code.getUint16(offset, true)) {
      case 0x20: // BPF_LD | BPF_W | BPF_ABS
        if (operand % 4 !== 0) throw new Error(`instruction ${at}: offset ${operand} is not that of a word`);
        accumulator = data.getUint32(operand, true);
        break;
      case 0x54: // BPF_ALU | BPF_AND | BPF_K
        accumulator = (accumulator & operand) >>> 0;
        break;
      case 0x15: // BPF_JMP | BPF_JEQ | BPF_K
        jump(accumulator === operand);
        break;
      case 0x35: // BPF_JMP | BPF_JGE | BPF_K
        jump(accumulator >= operand);
        break;
      case 0x45: // BPF_JMP | BPF_JSET | BPF_K
        jump((accumulator & operand) !== 0);
        break;
      case 0x06: // BPF_RET | BPF_K
        return operand;
      default:
        throw new Error(`instruction ${at}: no code ${code.getUint16(offset, true)}`);
    }
  }
  throw new Error('the program ends without an action');
}
