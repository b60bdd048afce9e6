// Probes for bpftrace, perf and SystemTap, at which a running process can be watched without asking it; a probe that
// nobody watches is one instruction that does nothing.  Only where <sys/sdt.h> is there at build time (Debian:
// systemtap-sdt-dev).  docs/diagnosis.md lists them.
#pragma once

#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#define TUTTI_PROBE_BEGIN(communicator, head, count, bytes) \
  DTRACE_PROBE4(tutti, call_begin, communicator, head, count, bytes)
#define TUTTI_PROBE_END(communicator, number, failed) DTRACE_PROBE3(tutti, call_end, communicator, number, failed)
#else
#define TUTTI_PROBE_BEGIN(communicator, head, count, bytes) static_cast<void>(0)
#define TUTTI_PROBE_END(communicator, number, failed) static_cast<void>(0)
#endif
