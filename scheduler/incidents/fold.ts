/** Folds effects below their causes, and orders incidents: the most urgent first. */
import { KINDS, keyOf, SEVERITIES, type Incident } from './incident.ts';
import { counted, waitText, type Waiting } from './titles.ts';

/** One incident a cause: one whose cause is among the others is an effect of it. */
export function fold(found: readonly Incident[]): Incident[] {
  const merged = [...Map.groupBy(found, keyOf).values()].map(mergeSame);
  const causes = new Map(merged.filter(({ causes: own }) => own.length === 0).map((incident) => [keyOf(incident), incident]));
  const effects = new Map<string, Incident[]>();
  const roots: Incident[] = [];
  for (const incident of merged) {
    const cause = incident.causes.find((key) => causes.has(key));
    const own = cause === undefined ? undefined : effects.get(cause);
    if (cause === undefined) roots.push(incident);
    else if (own === undefined) effects.set(cause, [incident]);
    else own.push(incident);
  }
  return roots
    .map((incident) => {
      const own = effects.get(keyOf(incident)) ?? [];
      return own.length === 0
        ? incident
        : { ...incident, message: `${incident.message}: ${summary(own)}`, effects: own.toSorted(byUrgency) };
    })
    .toSorted(byUrgency);
}

/** Several faults of one kind at one node are one incident; so are several quotas of one account. */
function mergeSame([first, ...others]: readonly Incident[]): Incident {
  if (first === undefined) throw new Error('a group has at least one entry');
  const more = others.map(({ subject, message }) => message.slice(subject.length).trim());
  if (others.length === 0) return first;
  const actions = [first, ...others].flatMap((incident) => incident.actions);
  const distinct = actions.filter((action, index) => actions.findIndex(({ command }) => command === action.command) === index);
  return { ...first, message: [first.message, ...more].join('; '), actions: distinct };
}

/** `2 endpoints, 11 jobs wait`. */
function summary(effects: readonly Incident[]): string {
  const waiting = effects.reduce<Waiting>(
    (sum, { waiting: each }) => ({ jobs: sum.jobs + each.jobs, requests: sum.requests + each.requests }),
    { jobs: 0, requests: 0 },
  );
  return [counted(effects.length, 'endpoint'), waitText(waiting)].filter((part) => part !== '').join(', ');
}

function byUrgency(a: Incident, b: Incident): number {
  return (
    SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity) ||
    KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind) ||
    (a.sinceMs ?? Number.MAX_SAFE_INTEGER) - (b.sinceMs ?? Number.MAX_SAFE_INTEGER) ||
    Number(a.node !== undefined) - Number(b.node !== undefined) ||
    (a.subject < b.subject ? -1 : a.subject > b.subject ? 1 : 0)
  );
}
