export const dynamic = 'force-dynamic';

export function GET() {
  let number = 0;
  const body = new ReadableStream({
    pull(controller) {
      if (number < 3) controller.enqueue(new TextEncoder().encode(`${number++}\n`));
      else controller.close();
    },
  });
  return new Response(body);
}
