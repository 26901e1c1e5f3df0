import { json } from '@sveltejs/kit';

export const GET = ({ params, url }) => json({ number: Number(params.number), q: url.searchParams.get('q') ?? '' });
