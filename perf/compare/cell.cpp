#include "perf/compare/cell.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

namespace tutti::compare {
namespace {

constexpr float kWiped = -7;

constexpr unsigned kValues = 8;

unsigned shiftOf(int rank, unsigned turn) { return 3 * static_cast<unsigned>(rank) + turn; }
float inputAt(int rank, size_t i, unsigned turn) { return static_cast<float>((i + shiftOf(rank, turn)) % kValues); }

// Both types are the upper bits of a float; the values used are exact in either.
void store(Type type, void* buffer, size_t i, float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (type == Type::Float) {
    static_cast<float*>(buffer)[i] = value;
  } else {
    static_cast<uint16_t*>(buffer)[i] = static_cast<uint16_t>(bits >> 16);
  }
}

float load(Type type, const void* buffer, size_t i) {
  if (type == Type::Float) return static_cast<const float*>(buffer)[i];
  return std::bit_cast<float>(static_cast<uint32_t>(static_cast<const uint16_t*>(buffer)[i]) << 16);
}

size_t sendBlocks(Op op, int nRanks) {
  if (op == Op::Barrier) return 0;
  return op == Op::ReduceScatter || op == Op::AllToAll ? static_cast<size_t>(nRanks) : 1;
}

bool sends(Op op, int rank) {
  switch (op) {
    case Op::Barrier: return false;
    case Op::Broadcast: return rank == 0;
    case Op::PingPong: return rank < 2;
    default: return true;
  }
}

/// A pattern that comes again every kValues elements.  By memcpy: ranks that share a core write their next data while
/// others are still timed, and a loop of the compiler's took 1.0 or 1.5 times as long by where it lay in the program,
/// which is another one for each library.
template <class T>
void repeat(T* out, size_t count, const T (&values)[kValues]) {
  constexpr size_t kBlock = 4096 / sizeof(T);
  static_assert(kBlock % kValues == 0);
  T block[kBlock];
  for (size_t i = 0; i < kBlock; i += kValues) std::memcpy(block + i, values, sizeof values);
  for (size_t i = 0; i < count; i += kBlock) std::memcpy(out + i, block, std::min(kBlock, count - i) * sizeof(T));
}

size_t recvBlocks(Op op, int nRanks) {
  if (op == Op::Barrier) return 0;
  return op == Op::AllGather || op == Op::AllToAll ? static_cast<size_t>(nRanks) : 1;
}

bool receives(Op op, int rank) {
  switch (op) {
    case Op::Barrier: return false;
    case Op::Broadcast: return rank != 0;
    case Op::Reduce: return rank == 0;
    case Op::PingPong: return rank < 2;
    default: return true;
  }
}

float expected(const Call& call, int rank, int nRanks, size_t block, size_t i, unsigned turn) {
  const size_t mine = static_cast<size_t>(rank) * call.count + i;
  float sum = 0;
  switch (call.op) {
    case Op::AllGather: return inputAt(static_cast<int>(block), i, turn);
    case Op::AllToAll: return inputAt(static_cast<int>(block), mine, turn);
    case Op::Broadcast: return inputAt(0, i, turn);
    case Op::PingPong: return inputAt(1 - rank, i, turn);
    default:
      for (int r = 0; r < nRanks; ++r) sum += inputAt(r, call.op == Op::ReduceScatter ? mine : i, turn);
      return sum;
  }
}

// f(block, index in the block) for the elements that are looked at.
template <class F>
void forSamples(const Call& call, int nRanks, F f) {
  const size_t stride = std::max<size_t>(1, call.count / 1021) | 1;
  for (size_t block = 0; block < recvBlocks(call.op, nRanks); ++block) {
    for (size_t i = 0; i < call.count; i += stride) f(block, i);
    f(block, call.count / 2);
    f(block, call.count - 1);
  }
}

}  // namespace

size_t countOf(Op op, Type type, size_t bytes, int nRanks) {
  if (op == Op::Barrier) return 0;
  const bool blocks = op == Op::AllGather || op == Op::ReduceScatter || op == Op::AllToAll;
  return std::max<size_t>(1, bytes / bytesOf(type) / (blocks ? static_cast<size_t>(nRanks) : 1));
}

size_t sendBytes(const Call& call, int nRanks) { return sendBlocks(call.op, nRanks) * call.count * bytesOf(call.type); }
size_t recvBytes(const Call& call, int nRanks) { return recvBlocks(call.op, nRanks) * call.count * bytesOf(call.type); }

void fill(const Call& call, int rank, int nRanks) {
  const size_t sent = sendBlocks(call.op, nRanks) * call.count, received = recvBlocks(call.op, nRanks) * call.count;
  // The sender's buffer is const for the library only; it is ours.
  void* send = const_cast<void*>(call.send);
  for (size_t i = 0; i < sent; ++i) store(call.type, send, i, inputAt(rank, i, 0));
  if (call.recv == call.send) return;
  for (size_t i = 0; i < received; ++i) store(call.type, call.recv, i, kWiped);
}

void refill(const Call& call, int rank, int nRanks, unsigned turn) {
  if (!sends(call.op, rank)) return;
  const size_t count = sendBlocks(call.op, nRanks) * call.count;
  void* send = const_cast<void*>(call.send);
  float floats[kValues];
  uint16_t halves[kValues];
  for (size_t i = 0; i < kValues; ++i) {
    store(Type::Float, floats, i, inputAt(rank, i, turn));
    store(Type::Bfloat16, halves, i, inputAt(rank, i, turn));
  }
  call.type == Type::Float ? repeat(static_cast<float*>(send), count, floats)
                           : repeat(static_cast<uint16_t*>(send), count, halves);
}

void wipe(const Call& call, int rank, int nRanks) {
  if (!receives(call.op, rank)) return;
  forSamples(call, nRanks,
             [&](size_t block, size_t i) { store(call.type, call.recv, block * call.count + i, kWiped); });
}

std::string check(const Call& call, int rank, int nRanks, unsigned turn) {
  if (!receives(call.op, rank)) return "";
  size_t wrong = 0;
  std::string first;
  forSamples(call, nRanks, [&](size_t block, size_t i) {
    const float got = load(call.type, call.recv, block * call.count + i);
    const float want = expected(call, rank, nRanks, block, i, turn);
    if (got == want) return;
    if (wrong++ == 0) {
      first = "rank " + std::to_string(rank) + ", block " + std::to_string(block) + ", element " + std::to_string(i) +
              " is " + std::to_string(got) + " instead of " + std::to_string(want);
    }
  });
  return wrong == 0 ? "" : first + " (" + std::to_string(wrong) + " elements are wrong)";
}

}  // namespace tutti::compare
