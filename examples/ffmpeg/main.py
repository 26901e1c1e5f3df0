"""ffmpeg from a package of Python: no host needs to have it."""
import subprocess

import imageio_ffmpeg
from capstan import Endpoint


@Endpoint(name="tone")
def tone(seconds: float = 1.0):
    """Returns the length of a tone in bytes, as FLAC."""
    source = ["-f", "lavfi", "-i", f"sine=frequency=440:duration={seconds}"]
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-loglevel", "error", *source, "-f", "flac", "-"]
    made = subprocess.run(command, check=True, capture_output=True).stdout
    return {"magic": made[:4].decode(), "bytes": len(made)}
