"""The congestion control that Tutti's sockets have inside a host, which its peers' get as well."""
import os


def system():
    try:
        with open("/proc/sys/net/ipv4/tcp_congestion_control") as f:
            return f.read().strip()
    except OSError:
        return ""


def of_tutti():
    """What src/base/congestion.hpp makes of the system's; "" where nobody can tell."""
    control = system()
    return "reno" if control.startswith("bbr") else control
