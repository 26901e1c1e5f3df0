"""
Entry point of a Python worker host. Every Python version can parse this file, so that an old one reports its version.
"""
import sys

if sys.version_info < (3, 8):
    sys.stderr.write("Python 3.8 or newer is required; this is %s\n" % sys.version.split()[0])
    sys.exit(1)

# multiprocessing imports the main file again in the processes it spawns: those are not hosts.
if __name__ == "__main__":
    from capstan_bootstrap.host import main

    # This folder was needed only for the import above; the user's code gets the path of its own build.
    sys.path.pop(0)
    main()
