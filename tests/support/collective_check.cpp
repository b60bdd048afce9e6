#include "tests/support/collective_check.hpp"

#include <functional>

namespace tutti::test {
namespace {

std::string compare(const char* what, const FloatBuffer& got, size_t begin, size_t count,
                    const std::function<float(size_t)>& expected) {
  for (size_t i = 0; i < count; ++i) {
    if (got.get(begin + i) == expected(i)) continue;
    return std::string(what) + ": element " + std::to_string(begin + i) + " is " + std::to_string(got.get(begin + i)) +
           ", not " + std::to_string(expected(i));
  }
  return "";
}

void fill(FloatBuffer* buffer, size_t begin, size_t count, int rank, int block) {
  for (size_t i = 0; i < count; ++i) buffer->set(begin + i, element(rank, block, i));
}

float sumOverRanks(int nRanks, int block, size_t i) {
  float sum = 0;
  for (int r = 0; r < nRanks; ++r) sum += element(r, block, i);
  return sum;
}

std::string finish(const CheckOptions& o) {
  if (o.synchronize) return o.synchronize();
  return o.stream == nullptr ? "" : failed(tuttiStreamSynchronize(o.stream), "synchronize");
}

constexpr size_t at(int block, size_t count) { return static_cast<size_t>(block) * count; }

}  // namespace

std::string checkAllReduce(const Rank& r, const CheckOptions& o) {
  FloatBuffer in(o.count, o.shift, o.memory), out(o.count, o.shift, o.memory);
  FloatBuffer& source = o.inPlace ? out : in;
  fill(&source, 0, o.count, r.rank, 0);
  RANK_TRY(tuttiAllReduce(source.at(0), out.at(0), o.count, tuttiFloat32, tuttiSum, r.comm, o.stream));
  if (std::string why = finish(o); !why.empty()) return why;
  return compare("AllReduce", out, 0, o.count, [&](size_t i) { return sumOverRanks(r.nRanks, 0, i); });
}

std::string checkBroadcast(const Rank& r, const CheckOptions& o) {
  FloatBuffer in(o.count, o.shift, o.memory), out(o.count, o.shift, o.memory);
  FloatBuffer& source = o.inPlace ? out : in;
  if (r.rank == o.root) fill(&source, 0, o.count, r.rank, 0);
  const void* send = r.rank == o.root ? source.at(0) : nullptr;
  RANK_TRY(tuttiBroadcast(send, out.at(0), o.count, tuttiFloat32, o.root, r.comm, o.stream));
  if (std::string why = finish(o); !why.empty()) return why;
  return compare("Broadcast", out, 0, o.count, [&](size_t i) { return element(o.root, 0, i); });
}

std::string checkReduce(const Rank& r, const CheckOptions& o) {
  FloatBuffer in(o.count, o.shift, o.memory), out(o.count, o.shift, o.memory);
  const bool inPlace = o.inPlace && r.rank == o.root;
  FloatBuffer& source = inPlace ? out : in;
  fill(&source, 0, o.count, r.rank, 0);
  void* recv = r.rank == o.root ? out.at(0) : nullptr;
  RANK_TRY(tuttiReduce(source.at(0), recv, o.count, tuttiFloat32, tuttiSum, o.root, r.comm, o.stream));
  if (std::string why = finish(o); !why.empty()) return why;
  if (r.rank != o.root) {
    return compare("Reduce (its input)", source, 0, o.count, [&](size_t i) { return element(r.rank, 0, i); });
  }
  return compare("Reduce", out, 0, o.count, [&](size_t i) { return sumOverRanks(r.nRanks, 0, i); });
}

std::string checkAllGather(const Rank& r, const CheckOptions& o) {
  const size_t total = o.count * static_cast<size_t>(r.nRanks);
  FloatBuffer in(o.count, o.shift, o.memory), out(total, o.shift, o.memory);
  if (o.inPlace) {
    fill(&out, at(r.rank, o.count), o.count, r.rank, 0);
  } else {
    fill(&in, 0, o.count, r.rank, 0);
  }
  const void* send = o.inPlace ? out.at(at(r.rank, o.count)) : in.at(0);
  RANK_TRY(tuttiAllGather(send, out.at(0), o.count, tuttiFloat32, r.comm, o.stream));
  if (std::string why = finish(o); !why.empty()) return why;
  for (int b = 0; b < r.nRanks; ++b) {
    const auto expected = [&](size_t i) { return element(b, 0, i); };
    if (std::string why = compare("AllGather", out, at(b, o.count), o.count, expected); !why.empty()) return why;
  }
  return "";
}

std::string checkReduceScatter(const Rank& r, const CheckOptions& o) {
  const size_t total = o.count * static_cast<size_t>(r.nRanks);
  FloatBuffer in(total, o.shift, o.memory), out(o.count, o.shift, o.memory);
  for (int b = 0; b < r.nRanks; ++b) fill(&in, at(b, o.count), o.count, r.rank, b);
  void* recv = o.inPlace ? in.at(at(r.rank, o.count)) : out.at(0);
  RANK_TRY(tuttiReduceScatter(in.at(0), recv, o.count, tuttiFloat32, tuttiSum, r.comm, o.stream));
  if (std::string why = finish(o); !why.empty()) return why;
  const FloatBuffer& got = o.inPlace ? in : out;
  return compare("ReduceScatter", got, o.inPlace ? at(r.rank, o.count) : 0, o.count,
                 [&](size_t i) { return sumOverRanks(r.nRanks, r.rank, i); });
}

std::string checkAllToAll(const Rank& r, const CheckOptions& o) {
  const size_t total = o.count * static_cast<size_t>(r.nRanks);
  FloatBuffer in(total, o.shift, o.memory), out(total, o.shift, o.memory);
  FloatBuffer& source = o.inPlace ? out : in;
  for (int b = 0; b < r.nRanks; ++b) fill(&source, at(b, o.count), o.count, r.rank, b);
  RANK_TRY(tuttiAllToAll(source.at(0), out.at(0), o.count, tuttiFloat32, r.comm, o.stream));
  if (std::string why = finish(o); !why.empty()) return why;
  for (int b = 0; b < r.nRanks; ++b) {
    const auto expected = [&](size_t i) { return element(b, r.rank, i); };
    if (std::string why = compare("AllToAll", out, at(b, o.count), o.count, expected); !why.empty()) return why;
  }
  return "";
}

std::string checkGather(const Rank& r, const CheckOptions& o) {
  const size_t total = o.count * static_cast<size_t>(r.nRanks);
  FloatBuffer in(o.count, o.shift, o.memory), out(total, o.shift, o.memory);
  const bool inPlace = o.inPlace && r.rank == o.root;
  fill(inPlace ? &out : &in, inPlace ? at(r.rank, o.count) : 0, o.count, r.rank, 0);
  const void* send = inPlace ? out.at(at(r.rank, o.count)) : in.at(0);
  void* recv = r.rank == o.root ? out.at(0) : nullptr;
  RANK_TRY(tuttiGather(send, recv, o.count, tuttiFloat32, o.root, r.comm, o.stream));
  if (std::string why = finish(o); !why.empty()) return why;
  for (int b = 0; b < r.nRanks && r.rank == o.root; ++b) {
    const auto expected = [&](size_t i) { return element(b, 0, i); };
    if (std::string why = compare("Gather", out, at(b, o.count), o.count, expected); !why.empty()) return why;
  }
  return "";
}

std::string checkScatter(const Rank& r, const CheckOptions& o) {
  const size_t total = o.count * static_cast<size_t>(r.nRanks);
  FloatBuffer in(total, o.shift, o.memory), out(o.count, o.shift, o.memory);
  const bool inPlace = o.inPlace && r.rank == o.root;
  if (r.rank == o.root) {
    for (int b = 0; b < r.nRanks; ++b) fill(&in, at(b, o.count), o.count, r.rank, b);
  }
  const void* send = r.rank == o.root ? in.at(0) : nullptr;
  void* recv = inPlace ? in.at(at(r.rank, o.count)) : out.at(0);
  RANK_TRY(tuttiScatter(send, recv, o.count, tuttiFloat32, o.root, r.comm, o.stream));
  if (std::string why = finish(o); !why.empty()) return why;
  return compare("Scatter", inPlace ? in : out, inPlace ? at(r.rank, o.count) : 0, o.count,
                 [&](size_t i) { return element(o.root, r.rank, i); });
}

// Rank s sends (s + 2 d) % 4 * count elements to rank d; gaps of one element lie between blocks.
std::string checkVectors(const Rank& r, const CheckOptions& o) {
  const auto n = static_cast<size_t>(r.nRanks);
  const auto amount = [&](int s, int d) { return static_cast<size_t>((s + 2 * d) % 4) * o.count; };
  std::vector<size_t> sendCounts(n), sendDispls(n), recvCounts(n), recvDispls(n), gatherCounts(n), gatherDispls(n);
  size_t sendEnd = 0, recvEnd = 0, gatherEnd = 0;
  for (size_t p = 0; p < n; ++p) {
    const int peer = static_cast<int>(p);
    sendCounts[p] = amount(r.rank, peer);
    recvCounts[p] = amount(peer, r.rank);
    gatherCounts[p] = amount(peer, 0);
    sendDispls[p] = sendEnd;
    recvDispls[p] = recvEnd;
    gatherDispls[p] = gatherEnd;
    sendEnd += sendCounts[p] + 1;
    recvEnd += recvCounts[p] + 1;
    gatherEnd += gatherCounts[p] + 1;
  }
  const auto own = static_cast<size_t>(r.rank);
  FloatBuffer in(sendEnd, o.shift, o.memory), out(recvEnd, o.shift, o.memory), gathered(gatherEnd, o.shift, o.memory);
  for (size_t p = 0; p < n; ++p) fill(&in, sendDispls[p], sendCounts[p], r.rank, static_cast<int>(p));
  RANK_TRY(tuttiAllToAllv(in.at(0), sendCounts.data(), sendDispls.data(), out.at(0), recvCounts.data(),
                          recvDispls.data(), tuttiFloat32, r.comm, o.stream));
  if (std::string why = finish(o); !why.empty()) return why;
  for (size_t p = 0; p < n; ++p) {
    const auto expected = [&](size_t i) { return element(static_cast<int>(p), r.rank, i); };
    if (std::string why = compare("AllToAllv", out, recvDispls[p], recvCounts[p], expected); !why.empty()) return why;
  }

  FloatBuffer mine(gatherCounts[own], o.shift, o.memory);
  fill(&mine, 0, gatherCounts[own], r.rank, 0);
  for (const bool all : {true, false}) {
    if (all) {
      RANK_TRY(tuttiAllGatherv(mine.at(0), gatherCounts[own], gathered.at(0), gatherCounts.data(), gatherDispls.data(),
                               tuttiFloat32, r.comm, o.stream));
    } else {
      RANK_TRY(tuttiGatherv(mine.at(0), gatherCounts[own], gathered.at(0), gatherCounts.data(), gatherDispls.data(),
                            tuttiFloat32, o.root, r.comm, o.stream));
    }
    if (std::string why = finish(o); !why.empty()) return why;
    if (!all && r.rank != o.root) continue;
    for (size_t p = 0; p < n; ++p) {
      const auto expected = [&](size_t i) { return element(static_cast<int>(p), 0, i); };
      const std::string why =
          compare(all ? "AllGatherv" : "Gatherv", gathered, gatherDispls[p], gatherCounts[p], expected);
      if (!why.empty()) return why;
    }
  }

  FloatBuffer whole(gatherEnd, o.shift, o.memory);
  for (size_t p = 0; p < n; ++p) fill(&whole, gatherDispls[p], gatherCounts[p], r.rank, static_cast<int>(p));
  RANK_TRY(tuttiReduceScatterv(whole.at(0), mine.at(0), gatherCounts.data(), gatherDispls.data(), tuttiFloat32,
                               tuttiSum, r.comm, o.stream));
  if (std::string why = finish(o); !why.empty()) return why;
  std::string why = compare("ReduceScatterv", mine, 0, gatherCounts[own],
                            [&](size_t i) { return sumOverRanks(r.nRanks, r.rank, i); });
  if (!why.empty()) return why;
  RANK_TRY(tuttiScatterv(whole.at(0), gatherCounts.data(), gatherDispls.data(), mine.at(0), gatherCounts[own],
                         tuttiFloat32, o.root, r.comm, o.stream));
  if (why = finish(o); !why.empty()) return why;
  return compare("Scatterv", mine, 0, gatherCounts[own], [&](size_t i) { return element(o.root, r.rank, i); });
}

// A ring, a message to oneself, and both directions with the opposite rank, all in one group.
std::string checkPointToPoint(const Rank& r, const CheckOptions& o) {
  const int next = (r.rank + 1) % r.nRanks, prev = (r.rank + r.nRanks - 1) % r.nRanks;
  FloatBuffer out(o.count, o.shift, o.memory), in(o.count, o.shift, o.memory), self(o.count, o.shift, o.memory);
  fill(&out, 0, o.count, r.rank, 5);
  RANK_TRY(tuttiGroupStart());
  RANK_TRY(tuttiRecv(in.at(0), o.count, tuttiFloat32, prev, r.comm, o.stream));
  if (r.nRanks > 1) {
    RANK_TRY(tuttiRecv(self.at(0), o.count, tuttiFloat32, r.rank, r.comm, o.stream));
    RANK_TRY(tuttiSend(out.at(0), o.count, tuttiFloat32, r.rank, r.comm, o.stream));
  }
  RANK_TRY(tuttiSend(out.at(0), o.count, tuttiFloat32, next, r.comm, o.stream));
  RANK_TRY(tuttiGroupEnd());
  if (std::string why = finish(o); !why.empty()) return why;
  if (r.nRanks > 1) {
    std::string why = compare("Send to self", self, 0, o.count, [&](size_t i) { return element(r.rank, 5, i); });
    if (!why.empty()) return why;
  }
  return compare("Send/Recv", in, 0, o.count, [&](size_t i) { return element(prev, 5, i); });
}

std::string checkEverything(const Rank& r, const CheckOptions& o) {
  for (const auto check : {checkAllReduce, checkBroadcast, checkReduce, checkAllGather, checkReduceScatter,
                           checkAllToAll, checkGather, checkScatter, checkVectors, checkPointToPoint}) {
    if (std::string why = check(r, o); !why.empty())
      return why + " (count " + std::to_string(o.count) + ", root " + std::to_string(o.root) +
             (o.inPlace ? ", in place)" : ")");
  }
  RANK_TRY(tuttiBarrier(r.comm, o.stream));
  return finish(o);
}

}  // namespace tutti::test
