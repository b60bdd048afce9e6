// Writes our schedules while a foreign plan is being played: every copy, reduction and message becomes a logical op.
//
// Ops are appended in the order of the play, which is therefore an order in which the schedules can run, and the FIFOs
// between ranks never hold more than one message in it: schedules written so cannot deadlock with one slot.  Where
// another message wants to come, the one in the FIFO is received early: a put into its target, one that a thread block
// will ask for into scratch.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "src/import/lane_groups.hpp"
#include "src/import/memory_map.hpp"

namespace tutti::foreign {

/// What a chunk of a rank holds.
struct Value {
  Chunk chunk;
  int part = 0;            // of a block, in collectives on blocks
  bool temporary = false;  // in scratch that is nobody's afterwards
};

class Emitter {
 public:
  /// All must outlive it.
  Emitter(const MemoryMap& memory, const LaneGroups& lanes, int nRanks);

  bool written(size_t cell) const { return cells_[cell].part >= 0; }
  /// Where the value of a written cell is; what is on its way there is received first.
  Value load(size_t cell);

  /// One operand of a combination: a value here, one of another rank, or a message.
  struct Operand {
    Value value;
    int rank = -1;     // whose value; -1: here
    int message = -1;  // instead of a value
  };
  /// The operands combined from left to right, all of one part, in a chunk: the operand itself if there is just one and
  /// it is here; else in `into` where that can be, or in scratch.
  Value combine(int rank, int lane, std::span<const Operand> operands, std::optional<size_t> into);
  /// Put the value into a cell of this rank.  A value that is there already stays.
  void store(int rank, int lane, const Value& value, size_t cell);
  /// Send the value to a cell of another rank.
  void put(int rank, int lane, const Value& value, int toRank, size_t cell);
  /// Give back scratch that combine() may have taken.
  void drop(int rank, int lane, const Value& value);

  /// Whether a message may be sent without making room; a put that is in the way is received.
  bool hasRoom(int from, int to, int lane, int part);
  /// Receive whatever is in the FIFO.
  void makeRoom(int from, int to, int lane, int part);
  /// A message that `to` will take with combine().
  int send(int from, int to, int lane, const Value& value);
  int partOfMessage(int message) const { return messages_[static_cast<size_t>(message)].part; }

  /// Receives what is still on its way to cells, and hands the schedules over.
  std::vector<Schedule> finish();

 private:
  struct Cell {
    int part = -1;     // of its value; -1: never written
    int pending = -1;  // a message that is on its way here
  };
  struct Message {
    int from, to, lane, part;
    std::optional<size_t> cell;  // of a put
    bool underway = true;        // in the FIFO
    Chunk stash;                 // where it was received early, if it is not a put
  };

  int laneIndex(int lane, int part) const { return part * lanes_.nLanes + lane; }
  void append(int rank, int lane, int part, Op op);
  Chunk chunkFor(size_t cell, int rank, int part);
  Chunk newScratch(int rank);
  Chunk newTemporary(int rank, int lane, int part);
  int& occupant(int from, int to, int lane, int part);
  void deliver(int message);
  /// value of `acc` (nothing at first) combined with one more operand, in `into`.
  void accumulate(int rank, int lane, int part, const Operand& operand, std::optional<Chunk> acc, Chunk into);

  const MemoryMap& memory_;
  const LaneGroups& lanes_;
  std::vector<Schedule> schedules_;
  std::vector<Cell> cells_;
  std::vector<Message> messages_;
  std::vector<size_t> pending_;                               // cells that may have something on its way
  std::vector<std::vector<int>> occupants_;                   // [from * nRanks + to][lane index]: a message, or -1
  std::map<std::pair<size_t, int>, int> scratchOf_;           // of scratch and written inputs, by cell and part
  std::map<std::pair<int, int>, std::vector<int>> released_;  // temporaries, by rank and lane index
};

}  // namespace tutti::foreign
