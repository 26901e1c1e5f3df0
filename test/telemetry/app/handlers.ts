/** What the tests of forwarding run. */

/** Prints a line with fields; returns the names of OpenTelemetry's variables that it sees. */
export function printing(): string[] {
  console.log(JSON.stringify({ message: 'hot', level: 'warn', gpu: 3 }));
  return Object.keys(process.env).filter((name) => name.startsWith('OTEL_'));
}
