"""Programs that compute beside the measured ones, as on a laptop or a shared server."""
import contextlib
import subprocess


@contextlib.contextmanager
def computing(count):
    """So many processes that never sleep, for as long as the context lasts."""
    processes = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
