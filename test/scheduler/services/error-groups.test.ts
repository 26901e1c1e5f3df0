/** Errors are grouped by what they have in common, and the text of a group finds its jobs. */
import test from 'ava';

import { ErrorGroups } from '../../../scheduler/services/error-groups.ts';

const ofHandler = (message: string): string => JSON.stringify({ error_type: 'Error', error_message: message, error_traceback: 'at a:1' });

function groupsOf(errors: readonly string[]): ReturnType<ErrorGroups['largest']> {
  const groups = new ErrorGroups();
  for (const error of errors) groups.add(error);
  return groups.largest(20);
}

test('errors that differ in a number, a name or a path are one group', (t) => {
  const errors = [1, 2, 3].map((n) => ofHandler(`cannot decode image ${n}.png`));
  const [first, second, ...others] = groupsOf([...errors, ofHandler('no such file: /data/a'), ofHandler('no such file: /data/b')]);
  t.like(first, { text: 'cannot decode image', message: 'cannot decode image', isCut: true, count: 3 });
  t.like(second, { message: 'no such file:', count: 2 });
  t.deepEqual(others, []);
});

test('a text that says too little up to its first number stays whole', (t) => {
  const groups = groupsOf([ofHandler('status 404'), ofHandler('status 500'), 'attempt 1 was lost']);
  t.deepEqual(
    groups.map(({ message, isCut }) => [message, isCut]),
    [
      ['status 404', false],
      ['status 500', false],
      ['attempt 1 was lost', false],
    ],
  );
});

test('the text of a group is part of each stored error, whatever is escaped in it', (t) => {
  const messages = ['"quoted" at once', `é\u0000\n${'\\'.repeat(200)}`, 'x'.repeat(199) + '\u2028', 'ein Bild fehlt: "a"', '', '\n'];
  for (const message of messages)
    for (const error of [
      ofHandler(message),
      JSON.stringify({ error_message: message }).replaceAll('é', String.raw`\u00e9`),
      `${message}.`,
    ]) {
      const [group] = groupsOf([error]);
      t.true(error.includes(group?.text ?? 'none'), JSON.stringify({ error, group }));
      t.true((group?.text.length ?? 0) <= 200);
    }
});

test('the text of a short or empty message finds no other errors', (t) => {
  for (const message of ['', '\n', 'x', 'status 404']) {
    const [group] = groupsOf([ofHandler(message)]);
    t.is(group?.message, message);
    t.false(ofHandler(`a longer one\n with x and status 404 in it`).includes(group?.text ?? ''), JSON.stringify(group));
  }
  t.deepEqual(groupsOf(['', ' ', '\n']), []);
});

test('the groups are bounded', (t) => {
  const groups = new ErrorGroups();
  for (let n = 0; n < 2_000; n++) groups.add(`e${n}`);
  groups.add('e7');
  t.is(groups.largest(20).length, 20);
  t.like(groups.largest(1)[0], { text: 'e7', count: 2 });
  t.is(groups.largest(10_000).length, 500);
});
