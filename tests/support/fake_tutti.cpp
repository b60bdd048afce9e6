// A test double of tutti.h: ranks are threads of one process and every collective is a plain loop that the last rank to
// arrive runs for all.  It is slow and obviously right, so the perf programs can be tested without the library, and
// it can be told to be wrong (FAKE_TUTTI_FAULT), so that the tests see their checks catch it:
//   swap     blocks of the result are exchanged        lose     the last rank's contribution is left out
//   double   rank 0's contribution is taken twice,     stale    every third collective leaves the result alone
//            the last one's left out                   overrun  one byte behind the result is written
//   bit      one bit of the last element is wrong      error    the tenth collective fails
#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "perf/common/pattern.hpp"
#include "tutti/tutti.h"

using tutti::perf::Kind;
using tutti::perf::TypeInfo;

namespace {

enum class What {
  AllReduce,
  Reduce,
  ReduceScatter,
  AllGather,
  AllToAll,
  AllToAllv,
  Broadcast,
  Gather,
  Scatter,
  Barrier,
  Split
};

struct Op {
  What what;
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;
  tuttiDataType_t type = tuttiInt8;
  tuttiRedOp_t op = tuttiSum;
  int root = 0;
  std::vector<size_t> sendCounts, sendOffsets, recvOffsets;
  int color = 0;
  tuttiComm_t* child = nullptr;
  bool done = false;
};
using OpPtr = std::shared_ptr<Op>;

struct Message {
  const void* send = nullptr;
  void* recv = nullptr;
  size_t bytes = 0;
  bool done = false;
};
using MessagePtr = std::shared_ptr<Message>;

struct Shared {  // what the ranks of one communicator have in common
  explicit Shared(int n) : nRanks(n), posted(static_cast<size_t>(n)) {}
  int nRanks;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::vector<OpPtr>> posted;  // by rank, waiting for the others
  std::map<std::pair<int, int>, std::vector<MessagePtr>> sends, recvs;
  std::vector<double> scalars;  // of PreMulSum operators, by (operator - tuttiNumOps) * nRanks + rank
  int executed = 0;
  bool aborted = false;
};

thread_local std::string lastError;
thread_local int groupDepth = 0;
thread_local std::vector<std::function<tuttiResult_t()>> waits;  // of the group that this thread has open

std::mutex registryMutex;
std::map<std::string, std::weak_ptr<Shared>> registry;  // by unique id

std::string fault() {
  const char* f = std::getenv("FAKE_TUTTI_FAULT");
  return f != nullptr ? f : "";
}

const TypeInfo& info(tuttiDataType_t type) {
  for (const TypeInfo& t : tutti::perf::allTypes()) {
    if (t.type == type) return t;
  }
  std::abort();
}

double decode(const TypeInfo& t, const std::byte* p) {
  if (t.bytes == 8) {
    double d;
    std::memcpy(&d, p, 8);
    return d;
  }
  if (t.bytes == 4) {
    float f;
    std::memcpy(&f, p, 4);
    return f;
  }
  uint32_t bits = 0;
  std::memcpy(&bits, p, t.bytes);
  const int fraction = t.significandBits - 1, bias = (1 << (t.exponentBits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> fraction & ((1u << t.exponentBits) - 1));
  double units = bits & ((1u << fraction) - 1);
  if (exponent > 0) units += std::ldexp(1.0, fraction);
  const double magnitude = std::ldexp(units, std::max(exponent, 1) - bias - fraction);
  return bits >> (fraction + t.exponentBits) & 1 ? -magnitude : magnitude;
}

int64_t decodeInteger(const TypeInfo& t, const std::byte* p) {
  uint64_t bits = 0;
  std::memcpy(&bits, p, t.bytes);
  const int spare = 64 - 8 * static_cast<int>(t.bytes);
  return t.kind == Kind::Signed ? static_cast<int64_t>(bits << spare) >> spare : static_cast<int64_t>(bits);
}

template <class T>
T combine(tuttiRedOp_t op, T a, T b) {
  switch (op) {
    case tuttiProd: return static_cast<T>(a * b);
    case tuttiMax: return std::max(a, b);
    case tuttiMin: return std::min(a, b);
    case tuttiLand: return a != 0 && b != 0;
    case tuttiLor: return a != 0 || b != 0;
    default: break;
  }
  if constexpr (std::is_integral_v<T>) {
    if (op == tuttiBand) return a & b;
    if (op == tuttiBor) return a | b;
    if (op == tuttiBxor) return a ^ b;
  }
  return static_cast<T>(a + b);  // sum, avg, PreMulSum
}

using Bytes = std::vector<std::byte>;

// out = reduction over all ranks of `count` elements, rounded after every combination.
void reduce(Shared& s, const Op& o, const std::vector<Bytes>& in, Bytes* out, size_t count) {
  const TypeInfo& t = info(o.type);
  std::vector<size_t> ranks;
  for (size_t r = 0; r < in.size(); ++r) ranks.push_back(r);
  if (fault() == "lose" && ranks.size() > 1) ranks.pop_back();
  if (fault() == "double") ranks.back() = 0;
  const bool logical = o.op == tuttiLand || o.op == tuttiLor;
  const auto scalar = [&](size_t r) {
    return o.op < tuttiNumOps ? 1.0 : s.scalars[static_cast<size_t>(o.op - tuttiNumOps) * in.size() + r];
  };
  out->resize(count * t.bytes);
  for (size_t i = 0; i < count; ++i) {
    std::byte* to = &(*out)[i * t.bytes];
    if (t.kind == Kind::Floating) {
      double result = 0;
      bool first = true;
      for (size_t r : ranks) {
        double v = decode(t, &in[r][i * t.bytes]) * scalar(r);
        if (logical) v = v != 0;
        tutti::perf::encodeElement(t, first ? v : combine(o.op, result, v), to);
        first = false;
        result = decode(t, to);
      }
      if (o.op == tuttiAvg) tutti::perf::encodeElement(t, result / static_cast<double>(in.size()), to);
      continue;
    }
    int64_t result = 0;
    bool first = true;
    for (size_t r : ranks) {
      int64_t v = decodeInteger(t, &in[r][i * t.bytes]) * static_cast<int64_t>(scalar(r));
      if (logical) v = v != 0;
      const uint64_t combined = first ? static_cast<uint64_t>(v)
                                : t.kind == Kind::Signed
                                    ? static_cast<uint64_t>(combine<int64_t>(o.op, result, v))
                                    : combine<uint64_t>(o.op, static_cast<uint64_t>(result), static_cast<uint64_t>(v));
      first = false;
      std::memcpy(to, &combined, t.bytes);
      result = decodeInteger(t, to);
    }
    if (t.kind == Kind::Boolean) result = result != 0;
    if (o.op == tuttiAvg) result /= static_cast<int64_t>(in.size());
    std::memcpy(to, &result, t.bytes);
  }
}

// The result of every rank, from copies of all inputs: (rank's recv offset in bytes, data).
struct Placed {
  size_t offset;
  Bytes data;
};

Bytes slice(const Bytes& b, size_t from, size_t bytes) {
  return Bytes(b.begin() + static_cast<std::ptrdiff_t>(from), b.begin() + static_cast<std::ptrdiff_t>(from + bytes));
}

size_t inputElements(const Op& o, size_t n, size_t rank) {
  switch (o.what) {
    case What::ReduceScatter:
    case What::AllToAll: return o.count * n;
    case What::Scatter: return static_cast<int>(rank) == o.root ? o.count * n : 0;
    case What::Broadcast: return static_cast<int>(rank) == o.root ? o.count : 0;
    case What::AllToAllv: return o.sendOffsets.back() + o.sendCounts.back();
    default: return o.count;
  }
}

std::vector<std::vector<Placed>> results(Shared& s, const std::vector<OpPtr>& ops, const std::vector<Bytes>& in) {
  const size_t n = ops.size(), e = info(ops[0]->type).bytes, bytes = ops[0]->count * e;
  std::vector<std::vector<Placed>> out(n);
  Bytes reduced;
  const What what = ops[0]->what;
  if (what == What::AllReduce || what == What::Reduce) reduce(s, *ops[0], in, &reduced, ops[0]->count);
  if (what == What::ReduceScatter) reduce(s, *ops[0], in, &reduced, ops[0]->count * n);
  for (size_t r = 0; r < n; ++r) {
    const bool root = static_cast<int>(r) == ops[0]->root;
    if (what == What::AllReduce || (what == What::Reduce && root)) out[r].push_back({0, reduced});
    if (what == What::ReduceScatter) out[r].push_back({0, slice(reduced, r * bytes, bytes)});
    if (what == What::Broadcast) out[r].push_back({0, in[static_cast<size_t>(ops[0]->root)]});
    if (what == What::Scatter) out[r].push_back({0, slice(in[static_cast<size_t>(ops[0]->root)], r * bytes, bytes)});
    for (size_t from = 0; from < n; ++from) {
      if (what == What::AllGather || (what == What::Gather && root)) out[r].push_back({from * bytes, in[from]});
      if (what == What::AllToAll) out[r].push_back({from * bytes, slice(in[from], r * bytes, bytes)});
      if (what != What::AllToAllv) continue;
      const Op& f = *ops[from];
      out[r].push_back({ops[r]->recvOffsets[from] * e, slice(in[from], f.sendOffsets[r] * e, f.sendCounts[r] * e)});
    }
  }
  return out;
}

void spoil(Shared& s, std::vector<Placed>* parts) {
  const std::string f = fault();
  if (parts->empty()) return;
  Placed& last = parts->back();
  if (f == "swap" && parts->size() > 1) std::swap(parts->front().data, last.data);
  if (f == "swap" && parts->size() == 1 && last.data.size() >= 16) {
    std::rotate(last.data.begin(), last.data.begin() + static_cast<std::ptrdiff_t>(last.data.size() / 2),
                last.data.end());
  }
  if (f == "bit" && !last.data.empty()) last.data.back() ^= std::byte{1};
  if (f == "overrun") last.data.push_back(std::byte{0});
  if (f == "stale" && s.executed % 3 == 0) parts->clear();
}

void executeSplit(const std::vector<OpPtr>& ops);

void execute(Shared& s, const std::vector<OpPtr>& ops) {
  ++s.executed;
  if (ops[0]->what == What::Split) return executeSplit(ops);
  if (ops[0]->what == What::Barrier) return;
  const size_t e = info(ops[0]->type).bytes;
  std::vector<Bytes> in(ops.size());
  for (size_t r = 0; r < ops.size(); ++r) {
    const std::byte* from = static_cast<const std::byte*>(ops[r]->send);
    in[r].assign(from, from + inputElements(*ops[r], ops.size(), r) * e);
  }
  std::vector<std::vector<Placed>> out = results(s, ops, in);
  for (size_t r = 0; r < ops.size(); ++r) {
    spoil(s, &out[r]);
    for (const Placed& p : out[r]) {
      if (!p.data.empty()) std::memcpy(static_cast<std::byte*>(ops[r]->recv) + p.offset, p.data.data(), p.data.size());
    }
  }
}

tuttiResult_t fail(tuttiResult_t code, const std::string& sentence) {
  lastError = sentence;
  return code;
}

}  // namespace

struct tuttiComm {
  std::shared_ptr<Shared> shared;
  int rank;
  int calls = 0;
};
struct tuttiStream {
  int unused;
};

namespace {

void executeSplit(const std::vector<OpPtr>& ops) {
  std::map<int, std::vector<size_t>> members;
  for (size_t r = 0; r < ops.size(); ++r) members[ops[r]->color].push_back(r);
  for (const auto& [color, ranks] : members) {
    auto shared = std::make_shared<Shared>(static_cast<int>(ranks.size()));
    for (size_t i = 0; i < ranks.size(); ++i) *ops[ranks[i]]->child = new tuttiComm{shared, static_cast<int>(i)};
  }
}

template <class Done>
tuttiResult_t waitFor(const std::shared_ptr<Shared>& s, Done done) {
  std::unique_lock lock(s->mutex);
  s->changed.wait(lock, [&] { return done() || s->aborted; });
  return done() ? tuttiSuccess : fail(tuttiRemoteError, "fake: a peer is gone");
}

template <class Done>
tuttiResult_t finishCall(const std::shared_ptr<Shared>& s, Done done) {
  if (groupDepth == 0) return waitFor(s, done);
  waits.push_back([s, done] { return waitFor(s, done); });
  return tuttiSuccess;
}

tuttiResult_t post(tuttiComm_t comm, Op op) {
  if (comm == nullptr) return fail(tuttiInvalidArgument, "fake: comm is null");
  if (fault() == "error" && ++comm->calls == 10 && comm->rank == 1) return fail(tuttiSystemError, "fake: told to fail");
  const std::shared_ptr<Shared> s = comm->shared;
  auto mine = std::make_shared<Op>(std::move(op));
  {
    std::lock_guard lock(s->mutex);
    s->posted[static_cast<size_t>(comm->rank)].push_back(mine);
    if (std::all_of(s->posted.begin(), s->posted.end(), [](const auto& q) { return !q.empty(); })) {
      std::vector<OpPtr> ops;
      for (auto& queue : s->posted) {
        ops.push_back(queue.front());
        queue.erase(queue.begin());
      }
      execute(*s, ops);
      for (const OpPtr& o : ops) o->done = true;
      s->changed.notify_all();
    }
  }
  return finishCall(s, [mine] { return mine->done; });
}

tuttiResult_t postMessage(tuttiComm_t comm, const void* send, void* recv, size_t bytes, int peer) {
  const std::shared_ptr<Shared> s = comm->shared;
  const bool sends = recv == nullptr;
  const std::pair<int, int> pair = sends ? std::pair(comm->rank, peer) : std::pair(peer, comm->rank);
  MessagePtr message;
  {
    std::lock_guard lock(s->mutex);
    auto& others = sends ? s->recvs[pair] : s->sends[pair];
    if (others.empty()) {
      message = std::make_shared<Message>(Message{send, recv, bytes});
      (sends ? s->sends[pair] : s->recvs[pair]).push_back(message);
    } else {
      message = others.front();
      others.erase(others.begin());
      std::memcpy(sends ? message->recv : recv, sends ? send : message->send, bytes);
      message->done = true;
      s->changed.notify_all();
    }
  }
  return finishCall(s, [message] { return message->done; });
}

}  // namespace

extern "C" {

tuttiResult_t tuttiGetVersion(int* v) { return *v = TUTTI_VERSION_CODE, tuttiSuccess; }
const char* tuttiGetErrorString(tuttiResult_t r) { return r == tuttiSuccess ? "no error" : "error"; }
const char* tuttiGetLastError(tuttiComm_t) { return lastError.c_str(); }

tuttiResult_t tuttiGetUniqueId(tuttiUniqueId* id) {
  static int next = 0;
  std::lock_guard lock(registryMutex);
  std::memset(id, 0, sizeof *id);
  std::snprintf(id->internal, sizeof id->internal, "fake %d", next++);
  return tuttiSuccess;
}

tuttiResult_t tuttiCommInitRankConfig(tuttiComm_t* comm, int n, tuttiUniqueId id, int rank, tuttiConfig_t*) {
  std::lock_guard lock(registryMutex);
  std::shared_ptr<Shared> shared = registry[id.internal].lock();
  if (shared == nullptr) registry[id.internal] = shared = std::make_shared<Shared>(n);
  *comm = new tuttiComm{shared, rank};
  return tuttiSuccess;
}
tuttiResult_t tuttiCommInitEnv(tuttiComm_t* comm, tuttiConfig_t*) {
  *comm = new tuttiComm{std::make_shared<Shared>(1), 0};
  return tuttiSuccess;
}
tuttiResult_t tuttiCommSplit(tuttiComm_t comm, int color, int, tuttiComm_t* child, tuttiConfig_t*) {
  return post(comm, {.what = What::Split, .color = color, .child = child});
}
tuttiResult_t tuttiCommDestroy(tuttiComm_t comm) { return delete comm, tuttiSuccess; }
tuttiResult_t tuttiCommAbort(tuttiComm_t comm) {
  {
    std::lock_guard lock(comm->shared->mutex);
    comm->shared->aborted = true;
    comm->shared->changed.notify_all();
  }
  return delete comm, tuttiSuccess;
}
tuttiResult_t tuttiCommCount(tuttiComm_t comm, int* n) { return *n = comm->shared->nRanks, tuttiSuccess; }
tuttiResult_t tuttiCommUserRank(tuttiComm_t comm, int* r) { return *r = comm->rank, tuttiSuccess; }
tuttiResult_t tuttiMemAlloc(void** p, size_t bytes) { return *p = std::calloc(bytes / 4096 + 1, 4096), tuttiSuccess; }
tuttiResult_t tuttiMemFree(void* p) { return std::free(p), tuttiSuccess; }
tuttiResult_t tuttiCommRegister(tuttiComm_t, void* p, size_t, void** handle) { return *handle = p, tuttiSuccess; }
tuttiResult_t tuttiCommDeregister(tuttiComm_t, void*) { return tuttiSuccess; }
tuttiResult_t tuttiStreamCreate(tuttiStream_t* s) { return *s = new tuttiStream{}, tuttiSuccess; }
tuttiResult_t tuttiStreamDestroy(tuttiStream_t s) { return delete s, tuttiSuccess; }
tuttiResult_t tuttiStreamSynchronize(tuttiStream_t) { return tuttiSuccess; }

tuttiResult_t tuttiGroupStart() { return ++groupDepth, tuttiSuccess; }
tuttiResult_t tuttiGroupEnd() {
  if (--groupDepth > 0) return tuttiSuccess;
  tuttiResult_t first = tuttiSuccess;
  for (const auto& wait : std::exchange(waits, {})) {
    if (const tuttiResult_t r = wait(); first == tuttiSuccess) first = r;
  }
  return first;
}

tuttiResult_t tuttiRedOpCreatePreMulSum(tuttiRedOp_t* op, void* scalar, tuttiDataType_t type, tuttiScalarResidence_t,
                                        tuttiComm_t comm) {
  Shared& s = *comm->shared;
  const TypeInfo& t = info(type);
  const std::byte* p = static_cast<const std::byte*>(scalar);
  std::lock_guard lock(s.mutex);
  s.scalars.resize(static_cast<size_t>(s.nRanks), 1);
  s.scalars[static_cast<size_t>(comm->rank)] =
      t.kind == Kind::Floating ? decode(t, p) : static_cast<double>(decodeInteger(t, p));
  return *op = tuttiNumOps, tuttiSuccess;
}
tuttiResult_t tuttiRedOpDestroy(tuttiRedOp_t, tuttiComm_t) { return tuttiSuccess; }

tuttiResult_t tuttiAllReduce(const void* s, void* r, size_t n, tuttiDataType_t t, tuttiRedOp_t op, tuttiComm_t c,
                             tuttiStream_t) {
  return post(c, {.what = What::AllReduce, .send = s, .recv = r, .count = n, .type = t, .op = op});
}
tuttiResult_t tuttiReduce(const void* s, void* r, size_t n, tuttiDataType_t t, tuttiRedOp_t op, int root, tuttiComm_t c,
                          tuttiStream_t) {
  return post(c, {.what = What::Reduce, .send = s, .recv = r, .count = n, .type = t, .op = op, .root = root});
}
tuttiResult_t tuttiReduceScatter(const void* s, void* r, size_t n, tuttiDataType_t t, tuttiRedOp_t op, tuttiComm_t c,
                                 tuttiStream_t) {
  return post(c, {.what = What::ReduceScatter, .send = s, .recv = r, .count = n, .type = t, .op = op});
}
tuttiResult_t tuttiAllGather(const void* s, void* r, size_t n, tuttiDataType_t t, tuttiComm_t c, tuttiStream_t) {
  return post(c, {.what = What::AllGather, .send = s, .recv = r, .count = n, .type = t});
}
tuttiResult_t tuttiAllToAll(const void* s, void* r, size_t n, tuttiDataType_t t, tuttiComm_t c, tuttiStream_t) {
  return post(c, {.what = What::AllToAll, .send = s, .recv = r, .count = n, .type = t});
}
tuttiResult_t tuttiBroadcast(const void* s, void* r, size_t n, tuttiDataType_t t, int root, tuttiComm_t c,
                             tuttiStream_t) {
  return post(c, {.what = What::Broadcast, .send = s, .recv = r, .count = n, .type = t, .root = root});
}
tuttiResult_t tuttiGather(const void* s, void* r, size_t n, tuttiDataType_t t, int root, tuttiComm_t c, tuttiStream_t) {
  return post(c, {.what = What::Gather, .send = s, .recv = r, .count = n, .type = t, .root = root});
}
tuttiResult_t tuttiScatter(const void* s, void* r, size_t n, tuttiDataType_t t, int root, tuttiComm_t c,
                           tuttiStream_t) {
  return post(c, {.what = What::Scatter, .send = s, .recv = r, .count = n, .type = t, .root = root});
}
tuttiResult_t tuttiBarrier(tuttiComm_t c, tuttiStream_t) { return post(c, {.what = What::Barrier}); }
tuttiResult_t tuttiAllToAllv(const void* s, const size_t sc[], const size_t sd[], void* r, const size_t[],
                             const size_t rd[], tuttiDataType_t t, tuttiComm_t c, tuttiStream_t) {
  const int n = c->shared->nRanks;
  return post(c, {.what = What::AllToAllv,
                  .send = s,
                  .recv = r,
                  .type = t,
                  .sendCounts = {sc, sc + n},
                  .sendOffsets = {sd, sd + n},
                  .recvOffsets = {rd, rd + n}});
}
tuttiResult_t tuttiSend(const void* s, size_t n, tuttiDataType_t t, int peer, tuttiComm_t c, tuttiStream_t) {
  return postMessage(c, s, nullptr, n * info(t).bytes, peer);
}
tuttiResult_t tuttiRecv(void* r, size_t n, tuttiDataType_t t, int peer, tuttiComm_t c, tuttiStream_t) {
  return postMessage(c, nullptr, r, n * info(t).bytes, peer);
}
}
