// What one library must offer to be timed: the driver's loop (loop.cpp) is compiled once per adapter, so every library
// is called with the same buffers, by the same clock, in the same way.
//
// An adapter is one file in adapters/ that defines makeAdapter.  Everything throws std::runtime_error on failure: the
// process then reports the text and ends.
#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::compare {

enum class Op { AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast, Reduce, Barrier, PingPong };
enum class Type { Float, Bfloat16 };

/// One cell: what run() does again and again.  Operator sum, root 0.
struct Call {
  Op op = Op::Barrier;
  Type type = Type::Float;
  /// Elements of the message; of one rank's block for AllGather, ReduceScatter and AllToAll.
  size_t count = 0;
  /// AllReduce, Reduce: [count] each.  AllGather: [count] to [nRanks * count].  ReduceScatter: [nRanks * count] to
  /// [count].  AllToAll: [nRanks * count] each.  Broadcast: the root's data is at send, the others' goes to recv.
  /// PingPong: rank 0 sends [count] from send and receives into recv, rank 1 the other way round.
  const void* send = nullptr;
  void* recv = nullptr;
};

/// The ranks of one run and a way to exchange a few bytes before the library is up.
class World {
 public:
  virtual ~World() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Every rank's text, in rank order.  Every rank calls it the same number of times.
  virtual std::vector<std::string> gather(const std::string& mine) = 0;
};

class Adapter {
 public:
  virtual ~Adapter() = default;
  /// Name and version of the library, for the report.
  virtual std::string library() const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual bool supports(Op op, Type type) const = 0;
  /// Memory of the library's own, page-aligned, that it can reach without copying; nullptr if it has no such thing.
  virtual void* allocate(size_t /*bytes*/) { return nullptr; }
  virtual void release(void* /*memory*/) {}
  /// Makes memory of the program's, page-aligned, such that the library can reach it without copying; false if it has
  /// no such thing.  Until giveBack().
  virtual bool adopt(void* /*memory*/, size_t /*bytes*/) { return false; }
  virtual void giveBack(void* /*memory*/) {}
  /// Called once per cell, on every rank, before the first run().
  virtual void prepare(const Call& call) = 0;
  /// One call (PingPong: one round trip), complete on this rank when it returns.
  virtual void run() = 0;
  /// Called once after the last run() of a cell; the buffers go away after it.
  virtual void finish() {}
  virtual void barrier() = 0;
};

/// For libraries with a launcher of their own (MPI) world.rank() and size() are only known afterwards: from the
/// adapter.
std::unique_ptr<Adapter> makeAdapter(World& world);

inline size_t bytesOf(Type type) { return type == Type::Float ? 4 : 2; }

inline void require(bool ok, std::string_view what) {
  if (!ok) throw std::runtime_error(std::string(what));
}

}  // namespace tutti::compare
