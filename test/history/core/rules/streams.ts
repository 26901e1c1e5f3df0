/**
 * Chunks come in order without a gap. A reader that sends its cursor sees every chunk of an execution once. A reader without one may see chunks again
 * while parts die, and misses chunks only after an answer that it lost. A new execution starts at chunk 0, and an older one never comes back.
 */
import type { Call, Facts, JobFacts } from '../facts.ts';
import { isTerminal, type Made } from '../record.ts';
import type { Violation } from '../violation.ts';
import { isList } from './outputs.ts';

interface Reader {
  execution: string;
  next: number;
  readonly earlier: Set<string>;
  /** An answer got lost since the last chunk. */
  lostAnswer: boolean;
  /** The present call names the index that it reads from. */
  byCursor: boolean;
}

export function chunksInOrder(facts: Facts): Violation[] {
  return [...facts.jobs.values()].flatMap((job) => {
    const reads = job.calls.filter(({ record }) => record.operation === 'stream').toSorted((a, b) => a.record.at - b.record.at);
    const problem = reads.length === 0 ? undefined : read(facts, job, reads);
    return problem === undefined ? [] : [{ rule: 'chunks in order', detail: `${job.id}: ${problem}`, jobs: [job.id] }];
  });
}

function read(facts: Facts, job: JobFacts, reads: readonly Call[]): string | undefined {
  const reader: Reader = { execution: '', next: 0, earlier: new Set(), lostAnswer: false, byCursor: false };
  for (const { record, answer } of reads) {
    if (answer === undefined) reader.lostAnswer = true;
    if (answer?.status !== 200) continue;
    reader.byCursor = record.after !== undefined;
    for (const chunk of answer.chunks ?? []) {
      const problem = take(facts, job, reader, chunk);
      if (problem !== undefined) return `${problem} (call ${record.call})`;
    }
    const status = answer.job?.status ?? '';
    if (isTerminal(status)) return record.after === undefined ? undefined : atEnd(job, reader, status);
  }
  return undefined;
}

function take(facts: Facts, job: JobFacts, reader: Reader, chunk: Made): string | undefined {
  const { execution, index = -1 } = chunk;
  const made = facts.executions.get(execution);
  if (made?.enter.job !== job.id) return `chunk ${index} is of execution ${execution}, which is of ${made?.enter.job ?? 'no job'}`;
  if (index >= made.chunks) return `chunk ${index} of execution ${execution} was never yielded`;
  if (!chunk.intact) return `chunk ${index} of execution ${execution} has other bytes than its handler yielded`;
  if (reader.earlier.has(execution)) return `chunk ${index} is of execution ${execution}, which another one had replaced`;
  if (execution !== reader.execution) {
    if (reader.execution !== '') reader.earlier.add(reader.execution);
    reader.execution = execution;
    reader.next = 0;
  }
  const again = index < reader.next && !reader.byCursor;
  const gapExplained = index > reader.next && !reader.byCursor && reader.lostAnswer;
  if (index !== reader.next && !again && !gapExplained) return `chunk ${index} of execution ${execution} comes where ${reader.next} is due`;
  reader.next = Math.max(reader.next, index + 1);
  reader.lostAnswer = false;
  return undefined;
}

/** What was read by cursor up to a completed job's end is its output. */
function atEnd(job: JobFacts, reader: Reader, status: string): string | undefined {
  if (status !== 'COMPLETED') return undefined;
  const output = job.observations.find(({ view }) => view?.status === 'COMPLETED')?.view?.output;
  if (!isList(output)) return undefined;
  const [execution = '', length] = [output[0]?.execution, output.length];
  if (execution === reader.execution && length === reader.next) return undefined;
  return `its stream ended after ${reader.next} chunks of execution ${reader.execution}, its output has ${length} of ${execution}`;
}
