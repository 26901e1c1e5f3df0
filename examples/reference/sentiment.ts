/** The reference application's route that wants a GPU: POST /sentiment, by a small list of words. */
import { Endpoint } from '@capstan/sdk';

const gpu = new Endpoint({ name: 'reference-sentiment', gpu: 'ANY', workers: [0, 1], idleTimeout: 60, maxConcurrency: 4 });

const POSITIVE = new Set([
  'amazing',
  'awesome',
  'best',
  'excellent',
  'good',
  'great',
  'happy',
  'like',
  'love',
  'loved',
  'nice',
  'wonderful',
]);
const NEGATIVE = new Set(['awful', 'bad', 'boring', 'broken', 'hate', 'hated', 'horrible', 'poor', 'sad', 'terrible', 'worst', 'wrong']);

/** `score`: the share of the words with a mood that have the label's, four decimals; 0.5 when none has one, or both moods weigh the same. */
export const sentiment = gpu.post('/sentiment', (text: string) => {
  const words = text.toLowerCase().match(/\p{L}+/gu) ?? [];
  const positive = words.filter((word) => POSITIVE.has(word)).length;
  const negative = words.filter((word) => NEGATIVE.has(word)).length;
  const label = positive > negative ? 'POSITIVE' : negative > positive ? 'NEGATIVE' : 'NEUTRAL';
  const share = positive === negative ? 0.5 : Math.max(positive, negative) / (positive + negative);
  return { text, sentiment: { label, score: Math.round(share * 10_000) / 10_000 }, device: device() };
});

/** The agent names the devices of a worker here; none on a CPU. */
function device(): 'GPU' | 'CPU' {
  return (process.env['CUDA_VISIBLE_DEVICES'] ?? '') === '' ? 'CPU' : 'GPU';
}
