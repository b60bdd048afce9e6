// A foreign plan in one form, whatever file it came from: thread blocks of steps on chunks.
//
// A *chunk* here is the plan's: collectives on one vector divide it into blockChunks; the others divide every rank's
// block into blockChunks.  A step of kind Data is, for each of its chunks, "value := sources, left to right, then the
// message; store it in all targets; send it on".  Sources and targets may lie on other ranks (loads and stores over
// mapped memory).  Messages travel in one FIFO per pair of ranks and channel.  The other kinds only order.
#pragma once

#include <string>
#include <vector>

#include "src/base/status.hpp"
#include "src/schedule/schedule.hpp"

namespace tutti::foreign {

inline size_t at(int index) { return static_cast<size_t>(index); }

/// Chunks [index, index + the step's count) of a buffer of a rank.
struct Place {
  int rank = 0;
  Buffer buffer = Buffer::Input;
  int index = 0;
  /// Data with flags inside: a reader waits until they have been written.
  bool packets = false;
};

enum class StepKind : uint8_t {
  Nothing,  // but it may wait for other thread blocks
  Data,
  Post,     // semaphore += 1
  Take,     // wait until semaphore > 0, then -= 1
  Barrier,  // wait until all participants have come
};

/// A step of another thread block (an index into Program::threads) that must be done before.
struct Dependency {
  int thread = 0;
  int step = 0;
};

struct Step {
  StepKind kind = StepKind::Nothing;
  std::vector<Place> sources;
  std::vector<Place> targets;
  int count = 1;
  int share = 0;    // of the step's chunks laid end to end, this thread block does
  int nShares = 1;  // the share-th of nShares equal parts
  int from = -1;    // rank whose message is taken
  int to = -1;      // rank to which the value is sent
  int sync = -1;    // index into semaphores or barriers
  std::vector<Dependency> after;
  std::string where;  // "step 3 (rrc)" of its thread block, for messages
};

struct Thread {
  int rank = 0;
  int channel = 0;    // of its messages
  std::string where;  // "gpu 0 tb 3"
  std::vector<Step> steps;
};

struct Program {
  std::string name;
  Collective collective = Collective::AllReduce;
  int nRanks = 1;
  int root = 0;
  int blockChunks = 1;
  std::vector<int> scratchChunks;  // of each rank
  std::vector<Thread> threads;
  std::vector<int> semaphores;  // initial values
  std::vector<int> barriers;    // numbers of participants
};

/// What a file says of one rank's buffers.
struct ChunkCounts {
  int input = 0, output = 0, scratch = 0;
};

/// Limits on what is read, so that a hostile file costs little.
inline constexpr int kMostRanks = 1024;
inline constexpr int kMostChunks = 1 << 16;  // of one buffer
inline constexpr int kMostThreads = 8192;    // thread blocks of all ranks
inline constexpr int64_t kMostMoves = int64_t{1} << 22;

/// Derive blockChunks (and for rooted collectives the root, if `root` is -1) from what the file declares.
/// Errors: InvalidArgument with what does not fit together.
Status setChunks(const std::vector<ChunkCounts>& counts, int root, Program* program);

}  // namespace tutti::foreign
