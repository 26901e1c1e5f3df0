export const GET = () => Response.json({ home: true });
export const dynamic = 'force-dynamic';
