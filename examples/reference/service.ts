/** The reference application's routes that need no GPU: GET /health, GET /info, POST /analyze. */
import { Endpoint } from '@capstan/sdk';

const api = new Endpoint({ name: 'reference', workers: [0, 2], idleTimeout: 60, maxConcurrency: 16, scalerValue: 16 });

const NAME = 'text-service';
const VERSION = '1.0.0';

const ENDPOINTS = [
  { method: 'GET', path: '/health', description: 'Says that the service is up.' },
  { method: 'GET', path: '/info', description: 'Names the service and its routes.' },
  { method: 'POST', path: '/analyze', description: 'Counts words, characters and sentences of a text.' },
  { method: 'POST', path: '/sentiment', description: 'Judges the mood of a text; served by the GPU endpoint.' },
] as const;

export const health = api.get('/health', () => ({ status: 'healthy', service: NAME, version: VERSION }));

export const info = api.get('/info', () => ({ name: NAME, version: VERSION, endpoints: ENDPOINTS }));

/** Words are what white space separates; characters are code points; sentences are counted by the characters . ! ? */
export const analyze = api.post('/analyze', (text: string) => {
  const words = text.split(/\p{White_Space}+/u).filter((word) => word !== '');
  const inWords = words.reduce((sum, word) => sum + Array.from(word).length, 0);
  return {
    text,
    statistics: {
      word_count: words.length,
      character_count: Array.from(text).length,
      average_word_length: words.length === 0 ? 0 : hundredths(inWords, words.length) / 100,
      sentence_count: text.match(/[.!?]/g)?.length ?? 0,
    },
  };
});

/** The quotient in hundredths, halves rounded up; in whole numbers, since binary fractions lose halves. */
function hundredths(dividend: number, divisor: number): number {
  return Math.floor((200 * dividend + divisor) / (2 * divisor));
}
