"""Starting threads of the backend's own."""
import resource
import threading


def start(purpose, name, target, *arguments):
    """A daemon thread that runs target(*arguments).  RuntimeError where the system gives none: what it was for, what to raise."""
    thread = threading.Thread(target=target, args=arguments, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
        now = "unlimited" if most == resource.RLIM_INFINITY else most
        raise RuntimeError(f"tutti: cannot start a thread for {purpose}: {error}; raise `ulimit -u` (now {now}), or the container's "
                           "limit of pids") from error
    return thread
