"""The first process of one host of hosts.py: makes the host's file systems, then runs commands that come over a Unix
socket, as sshd would, with the terminal's descriptors of the one that asks.
usage: agent.py FOLDER NAME HOSTS_FILE [container]     FOLDER/NAME.socket is listened on; the host ends when standard
input does.  A container has the boot id of the machine."""
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import uuid


def shell(*words):
    subprocess.run(words, check=True)


def make_file_systems(folder, name, hosts_file, is_container):
    """What a machine has of its own: processes, devices, shared memory, names of hosts, and the id of its boot."""
    shell("mount", "-t", "proc", "proc", "/proc")
    cgroups = os.open("/sys/fs/cgroup", os.O_PATH)
    shell("mount", "-t", "sysfs", "sysfs", "/sys")
    subprocess.run(["mount", "--rbind", f"/proc/self/fd/{cgroups}", "/sys/fs/cgroup"], pass_fds=[cgroups],
                   stderr=subprocess.DEVNULL)
    os.close(cgroups)
    seen = [os.open(path, os.O_PATH) for path in (os.getcwd(), os.path.dirname(os.path.dirname(os.path.dirname(__file__))))]
    for path in ("/dev/shm", "/run", "/tmp"):
        shell("mount", "-t", "tmpfs", "tmpfs", path)
    for folder_seen in seen:  # also where it lies in one of those
        path = os.readlink(f"/proc/self/fd/{folder_seen}")
        if path.startswith(("/run/", "/tmp/")):
            os.makedirs(path, exist_ok=True)
            subprocess.run(["mount", "--bind", f"/proc/self/fd/{folder_seen}", path], pass_fds=[folder_seen], check=True)
        os.close(folder_seen)
    if not is_container:
        boot = f"{folder}/{name}.boot"
        with open(boot, "w") as file:
            file.write(f"{uuid.uuid4()}\n")
        shell("mount", "--bind", boot, "/proc/sys/kernel/random/boot_id")
    shell("mount", "--bind", hosts_file, "/etc/hosts")
    shell("ip", "link", "set", "lo", "up")
    with open("/proc/sys/kernel/hostname", "w") as file:
        file.write(name)


def receive(connection):
    """One request: its length, then JSON; the descriptors come with the length."""
    head, descriptors, _, _ = socket.recv_fds(connection, 8, 3)
    body, length = b"", int.from_bytes(head, "little")
    while len(body) < length:
        part = connection.recv(length - len(body))
        if not part:
            raise EOFError
        body += part
    return json.loads(body), descriptors


def group_of(request):
    """How the command's processes are told from others', for all to be ended at once."""
    shared = not request["own_session"] and sys.version_info >= (3, 11)
    return {"process_group": 0} if shared else {"start_new_session": True}


def serve(connection):
    request, descriptors = receive(connection)
    base = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "USER", "LANG", "LD_LIBRARY_PATH")}
    environment = base | request["environment"]
    try:
        child = subprocess.Popen(request["command"], cwd=request["folder"], env=environment, **group_of(request),
                                 stdin=descriptors[0], stdout=descriptors[1], stderr=descriptors[2])
    except OSError as error:
        os.write(descriptors[2], f"{request['command'][0]}: {error}\n".encode())
        connection.sendall((127).to_bytes(1, "little"))
        return
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    ended = os.pidfd_open(child.pid)
    if ended not in select.select([ended, connection], [], [])[0]:
        os.killpg(child.pid, signal.SIGKILL)  # the one that asked has gone
    os.close(ended)
    status = child.wait()
    connection.sendall((status if status >= 0 else 128 - status).to_bytes(1, "little"))


def answer(connection):
    with connection:
        try:
            serve(connection)
        except (EOFError, OSError):
            pass  # it hung up


def main(folder, name, hosts_file, kind="host"):
    make_file_systems(folder, name, hosts_file, kind == "container")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{folder}/{name}.socket")
    listener.listen(256)
    while sys.stdin.fileno() not in (ready := select.select([sys.stdin.fileno(), listener], [], [])[0]):
        if listener in ready:
            threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()
    if name == "switch":
        shutil.rmtree(folder, ignore_errors=True)  # the maker may have been killed
    os._exit(0)  # and with the first process of its namespace everything on this host


if __name__ == "__main__":
    main(*sys.argv[1:])
