import asyncio

import runpod

running = 0


async def handler(job):
    global running
    running += 1
    try:
        # Ends once the other job runs beside it.
        async with asyncio.timeout(60):
            while running < 2:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        return {"beside": True}
    finally:
        running -= 1


runpod.serverless.start({"handler": handler, "concurrency_modifier": lambda current: 2})
