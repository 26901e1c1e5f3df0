export async function GET(request, { params }) {
  const { number } = await params;
  return Response.json({ number: Number(number), q: request.nextUrl.searchParams.get('q') ?? '' });
}
