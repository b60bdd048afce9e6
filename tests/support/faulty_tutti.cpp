// Preloaded between a perf program and the library: the library does the work, then TUTTI_TEST_FAULT goes wrong, so
// that the tests see the programs' checks catch it:
//   swap     the halves of the result are exchanged    lose     the last rank's contribution is left out
//   double   rank 0's contribution is taken twice,     stale    every third collective leaves the result alone
//            the last one's left out                   overrun  one byte behind the result is written
//   bit      one bit of the last byte is wrong         differ   rank 1's tenth all-reduce has one element less
// For calls that are over when they return: no stream, no group.  Every thread is one rank.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "perf/common/pattern.hpp"
#include "tutti/tutti.h"

using tutti::perf::TypeInfo;

namespace {

using Bytes = std::vector<std::byte>;

template <class Function>
Function* next(const char* name, Function*) {
  void* found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) {
    std::fprintf(stderr, "faulty_tutti: there is no %s behind this one\n", name);
    std::abort();
  }
  return reinterpret_cast<Function*>(found);
}
// The library's own function of that name.
#define REAL(name) next(#name, static_cast<decltype(&name)>(nullptr))

std::string fault() {
  const char* f = std::getenv("TUTTI_TEST_FAULT");
  return f != nullptr ? f : "";
}

const TypeInfo& info(tuttiDataType_t type) {
  for (const TypeInfo& t : tutti::perf::allTypes()) {
    if (t.type == type) return t;
  }
  std::abort();
}

int rankOf(tuttiComm_t comm) {
  int rank = -1;
  return tuttiCommUserRank(comm, &rank) == tuttiSuccess ? rank : -1;
}
size_t sizeOf(tuttiComm_t comm) {
  int n = 0;
  return tuttiCommCount(comm, &n) == tuttiSuccess ? static_cast<size_t>(n) : 0;
}

void spoil(std::byte* result, size_t bytes, const Bytes& before) {
  const std::string f = fault();
  if (f == "overrun") result[bytes] = std::byte{0};
  if (bytes == 0) return;
  if (f == "bit") result[bytes - 1] ^= std::byte{1};
  if (f == "swap") std::rotate(result, result + bytes / 2, result + bytes);
  if (!before.empty()) std::copy(before.begin(), before.end(), result);
}

// `call`, whose result on this rank is [recv, recv + bytes), and what goes wrong with it.
template <class RealCall>
tuttiResult_t faulty(void* recv, size_t bytes, RealCall call) {
  static thread_local int calls = 0;
  std::byte* result = static_cast<std::byte*>(recv);
  Bytes before;
  if (fault() == "stale" && ++calls % 3 == 0) before.assign(result, result + bytes);
  const tuttiResult_t code = call();
  if (code == tuttiSuccess && recv != nullptr) spoil(result, bytes, before);
  return code;
}

// What this rank contributes to a reduction: `send`, or on the last rank something else, kept in *other.  An operator
// for which the contribution of rank 0 counts once, however often it comes, loses the last one's that way.
const void* contribution(const void* send, size_t count, tuttiDataType_t type, tuttiRedOp_t op, tuttiComm_t comm,
                         Bytes* other) {
  const std::string f = fault();
  if (f != "lose" && f != "double") return send;
  const TypeInfo& t = info(type);
  const bool idempotent = op == tuttiMax || op == tuttiMin || op == tuttiBand || op == tuttiLand;
  other->resize(count * t.bytes);
  if (f == "double" || idempotent) {
    if (REAL(tuttiBroadcast)(send, other->data(), count, type, 0, comm, nullptr) != tuttiSuccess) std::abort();
  } else {
    for (size_t i = 0; i < count; ++i) {
      tutti::perf::encodeElement(t, op == tuttiProd ? 1 : 0, other->data() + i * t.bytes);
    }
  }
  return static_cast<size_t>(rankOf(comm)) + 1 == sizeOf(comm) ? other->data() : send;
}

size_t differing(size_t count, tuttiComm_t comm) {
  static thread_local int calls = 0;
  return fault() == "differ" && ++calls == 10 && rankOf(comm) == 1 ? count - 1 : count;
}

}  // namespace

extern "C" {

tuttiResult_t tuttiAllReduce(const void* s, void* r, size_t n, tuttiDataType_t t, tuttiRedOp_t op, tuttiComm_t c,
                             tuttiStream_t stream) {
  Bytes other;
  const void* from = contribution(s, n, t, op, c, &other);
  const size_t count = differing(n, c);
  return faulty(r, n * info(t).bytes, [&] { return REAL(tuttiAllReduce)(from, r, count, t, op, c, stream); });
}

tuttiResult_t tuttiReduce(const void* s, void* r, size_t n, tuttiDataType_t t, tuttiRedOp_t op, int root, tuttiComm_t c,
                          tuttiStream_t stream) {
  Bytes other;
  const void* from = contribution(s, n, t, op, c, &other);
  return faulty(rankOf(c) == root ? r : nullptr, rankOf(c) == root ? n * info(t).bytes : 0,
                [&] { return REAL(tuttiReduce)(from, r, n, t, op, root, c, stream); });
}

tuttiResult_t tuttiReduceScatter(const void* s, void* r, size_t n, tuttiDataType_t t, tuttiRedOp_t op, tuttiComm_t c,
                                 tuttiStream_t stream) {
  Bytes other;
  const void* from = contribution(s, n * sizeOf(c), t, op, c, &other);
  return faulty(r, n * info(t).bytes, [&] { return REAL(tuttiReduceScatter)(from, r, n, t, op, c, stream); });
}

// Gathers of bytes are the programs' own talk between processes and stay as they are.
tuttiResult_t tuttiAllGather(const void* s, void* r, size_t n, tuttiDataType_t t, tuttiComm_t c, tuttiStream_t stream) {
  if (t == tuttiUint8) return REAL(tuttiAllGather)(s, r, n, t, c, stream);
  return faulty(r, sizeOf(c) * n * info(t).bytes, [&] { return REAL(tuttiAllGather)(s, r, n, t, c, stream); });
}

tuttiResult_t tuttiAllToAll(const void* s, void* r, size_t n, tuttiDataType_t t, tuttiComm_t c, tuttiStream_t stream) {
  return faulty(r, sizeOf(c) * n * info(t).bytes, [&] { return REAL(tuttiAllToAll)(s, r, n, t, c, stream); });
}

tuttiResult_t tuttiAllToAllv(const void* s, const size_t sc[], const size_t sd[], void* r, const size_t rc[],
                             const size_t rd[], tuttiDataType_t t, tuttiComm_t c, tuttiStream_t stream) {
  const size_t last = sizeOf(c) - 1;
  return faulty(r, (rd[last] + rc[last]) * info(t).bytes,
                [&] { return REAL(tuttiAllToAllv)(s, sc, sd, r, rc, rd, t, c, stream); });
}

tuttiResult_t tuttiBroadcast(const void* s, void* r, size_t n, tuttiDataType_t t, int root, tuttiComm_t c,
                             tuttiStream_t stream) {
  return faulty(r, n * info(t).bytes, [&] { return REAL(tuttiBroadcast)(s, r, n, t, root, c, stream); });
}

tuttiResult_t tuttiGather(const void* s, void* r, size_t n, tuttiDataType_t t, int root, tuttiComm_t c,
                          tuttiStream_t stream) {
  return faulty(rankOf(c) == root ? r : nullptr, rankOf(c) == root ? sizeOf(c) * n * info(t).bytes : 0,
                [&] { return REAL(tuttiGather)(s, r, n, t, root, c, stream); });
}

tuttiResult_t tuttiScatter(const void* s, void* r, size_t n, tuttiDataType_t t, int root, tuttiComm_t c,
                           tuttiStream_t stream) {
  return faulty(r, n * info(t).bytes, [&] { return REAL(tuttiScatter)(s, r, n, t, root, c, stream); });
}

}  // extern "C"
