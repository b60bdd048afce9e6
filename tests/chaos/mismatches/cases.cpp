#include "tests/chaos/mismatches/cases.hpp"

#include <array>
#include <chrono>
#include <vector>

namespace tutti::test {
namespace {

constexpr auto kFloat = tuttiFloat32;

tuttiResult_t inGroup(const Player& p, size_t elements) {
  p.enter();
  (void)tuttiGroupStart();
  (void)tuttiAllReduce(p.in, p.out, p.count, kFloat, tuttiSum, p.comm, nullptr);
  (void)tuttiAllReduce(p.in, p.out, elements, kFloat, tuttiSum, p.comm, nullptr);
  return tuttiGroupEnd();
}

tuttiResult_t send(const Player& p, size_t count, tuttiDataType_t type, int to) {
  p.enter();
  return tuttiSend(p.in, count, type, to, p.comm, nullptr);
}
tuttiResult_t receive(const Player& p, size_t count, tuttiDataType_t type, int from) {
  p.enter();
  return tuttiRecv(p.out, count, type, from, p.comm, nullptr);
}
tuttiResult_t barrier(const Player& p) {
  p.enter();
  return tuttiBarrier(p.comm, nullptr);
}

tuttiResult_t split(const Player& p) {
  p.enter();
  tuttiComm_t child = nullptr;
  const tuttiResult_t result = tuttiCommSplit(p.comm, 0, p.rank, &child, nullptr);
  if (child != nullptr) (void)tuttiCommAbort(child);
  return result;
}

tuttiResult_t both(tuttiResult_t first, const Player& p, tuttiComm_t then) {
  return first != tuttiSuccess ? first : p.allReduce(p.count, then);
}

// What each rank does; the variants of collective() are its numbers.
const std::array kCases = {
    Case{"operation", 8, Culprit::Odd,
         [](const Player& p) {
           Player q = p;
           if (p.isOdd()) q.variant = (p.variant + 1) % 8;
           return q.collective(p.count, kFloat, tuttiSum, 0);
         }},
    Case{"count", 8, Culprit::Odd,
         [](const Player& p) { return p.collective(p.count + (p.isOdd() ? 1 : 0), kFloat, tuttiSum, 0); }},
    Case{"type", 8, Culprit::Odd,
         [](const Player& p) { return p.collective(p.count, p.isOdd() ? tuttiInt32 : kFloat, tuttiSum, 0); }},
    Case{"operator", 3, Culprit::Odd,
         [](const Player& p) { return p.collective(p.count, kFloat, p.isOdd() ? tuttiMax : tuttiSum, 0); }},
    Case{"root", 4, Culprit::Odd,
         [](const Player& p) {
           Player q = p;
           q.variant += 4;
           return q.collective(p.count, kFloat, tuttiSum, p.isOdd() ? 1 : 0);
         }},
    Case{"order", 1, Culprit::Odd,
         [](const Player& p) {
           Player first = p, second = p;
           first.variant = p.isOdd() ? 1 : 0;
           second.variant = p.isOdd() ? 0 : 1;
           const tuttiResult_t result = first.collective(p.count, kFloat, tuttiSum, 0);
           return result != tuttiSuccess ? result : second.collective(p.count, kFloat, tuttiSum, 0);
         }},
    Case{"missing call", 8, Culprit::Odd,
         [](const Player& p) { return p.isOdd() ? tuttiSuccess : p.collective(p.count, kFloat, tuttiSum, 0); }},
    Case{"extra call", 8, Culprit::Odd,
         [](const Player& p) { return p.isOdd() ? p.collective(p.count, kFloat, tuttiSum, 0) : tuttiSuccess; }},
    Case{"in a group", 1, Culprit::Odd, [](const Player& p) { return inGroup(p, p.count + (p.isOdd() ? 1 : 0)); }},
    Case{"counts by rank", 1, Culprit::Odd,
         [](const Player& p) {
           std::vector<size_t> counts(static_cast<size_t>(p.nRanks), p.count), displs;
           if (p.isOdd()) counts[static_cast<size_t>(p.next())] += 1;
           for (size_t i = 0, at = 0; i < counts.size(); at += counts[i++]) displs.push_back(at);
           p.enter();
           return tuttiAllGatherv(p.in, counts[static_cast<size_t>(p.rank)], p.out, counts.data(), displs.data(),
                                  kFloat, p.comm, nullptr);
         }},
    Case{"Send, count", 1, Culprit::OneOfTwo,
         [](const Player& p) {
           if (p.isOdd()) return send(p, p.count, kFloat, p.next());
           return p.rank == p.next() ? receive(p, p.count + 1, kFloat, p.odd) : tuttiSuccess;
         }},
    Case{"Send, type", 1, Culprit::OneOfTwo,
         [](const Player& p) {
           if (p.isOdd()) return send(p, p.count, kFloat, p.next());
           return p.rank == p.next() ? receive(p, p.count, tuttiInt32, p.odd) : tuttiSuccess;
         }},
    Case{"Recv alone", 1, Culprit::OneOfTwo,
         [](const Player& p) { return p.isOdd() ? receive(p, p.count, kFloat, p.next()) : tuttiSuccess; }},
    Case{"Recv and Recv", 1, Culprit::OneOfTwo,
         [](const Player& p) {
           if (p.isOdd()) return receive(p, p.count, kFloat, p.next());
           return p.rank == p.next() ? receive(p, p.count, kFloat, p.odd) : tuttiSuccess;
         }},
    Case{"Split, Barrier", 1, Culprit::Odd, [](const Player& p) { return p.isOdd() ? barrier(p) : split(p); }},
    Case{"two in turn", 1, Culprit::OneOfTwo,
         [](const Player& p) {
           return p.isOdd() ? both(p.allReduce(p.count, p.other), p, p.comm) : both(p.allReduce(p.count), p, p.other);
         }},
    Case{"around a ring", 2, Culprit::Nobody,
         [](const Player& p) {
           if (p.variant == 0 || !p.isOdd()) return both(p.allReduce(p.count, p.right), p, p.left);
           p.enter();
           return both(tuttiRecv(p.out, p.count, kFloat, 1, p.right, nullptr), p, p.left);
         }},
};

}  // namespace

int64_t nowUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

tuttiResult_t Player::allReduce(size_t elements, tuttiComm_t on) const {
  enter();
  return tuttiAllReduce(in, out, elements, kFloat, tuttiSum, on != nullptr ? on : comm, nullptr);
}

tuttiResult_t Player::collective(size_t elements, tuttiDataType_t type, tuttiRedOp_t op, int root) const {
  enter();
  switch (variant % 8) {
    case 0: return tuttiAllReduce(in, out, elements, type, op, comm, nullptr);
    case 1: return tuttiReduceScatter(in, out, elements, type, op, comm, nullptr);
    case 2: return tuttiReduce(in, out, elements, type, op, root, comm, nullptr);
    case 3: return tuttiAllGather(in, out, elements, type, comm, nullptr);
    case 4: return tuttiBroadcast(in, out, elements, type, root, comm, nullptr);
    case 5: return tuttiGather(in, out, elements, type, root, comm, nullptr);
    case 6: return tuttiScatter(in, out, elements, type, root, comm, nullptr);
    default: return tuttiReduce(in, out, elements, type, tuttiMax, root, comm, nullptr);
  }
}

std::span<const Case> allCases() { return kCases; }

}  // namespace tutti::test
