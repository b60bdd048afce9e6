// What the schedules of all ranks cost, counted on them rather than by formula.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "src/schedule/schedule.hpp"

namespace tutti {

struct Counts {
  int steps = 0;       // longest chain of messages of which each carries what the one before brought
  int waits = 0;       // the same if ops also wait for all ops before them in their lane
  int turns = 0;       // most times that a rank turns to another destination, the first included
  double sent = 0;     // most that a rank sends: in vectors for AllReduce, Broadcast, Reduce, else in blocks
  double sentAll = 0;  // by all ranks together
  int partners = 0;    // most ranks that one rank sends to
  int scratch = 0;     // most scratch chunks of a rank
};

/// Out-of-place schedules of logical ops that are known to complete.
class Counter {
 public:
  explicit Counter(const std::vector<Schedule>& schedules) : schedules_(schedules), chunks_(schedules.size()) {}

  Counts run() {
    std::vector<std::vector<Progress>> lanes;
    for (const Schedule& s : schedules_) {
      lanes.emplace_back(s.lanes.size());
      counts_.scratch = std::max(counts_.scratch, s.nScratch);
    }
    for (bool moved = true; moved;) {
      moved = false;
      for (const Schedule& s : schedules_) {
        for (size_t l = 0; l < s.lanes.size(); ++l) {
          Progress& at = lanes[s.rank][l];
          while (at.op < s.lanes[l].ops.size() && execute(s, l, s.lanes[l].ops[at.op], &at.waits)) {
            ++at.op;
            moved = true;
          }
        }
      }
    }
    for (const Schedule& s : schedules_) tally(s);
    return counts_;
  }

 private:
  struct Progress {
    size_t op = 0;
    int waits = 0;
  };
  struct Message {
    int steps;
    int waits;
  };
  using Link = std::tuple<int, int, size_t>;  // from, to, lane

  bool execute(const Schedule& s, size_t lane, const Op& op, int* waits) {
    for (int from : op.from) {
      if (fifos_[Link{from, s.rank, lane}].empty()) return false;
    }
    int steps = op.token ? *waits : 0;  // tokens carry no data: a barrier's chain is the order of its ops
    for (const Chunk& source : op.sources) steps = std::max(steps, chunks_[s.rank][source]);
    for (int from : op.from) {
      std::deque<Message>& fifo = fifos_[Link{from, s.rank, lane}];
      steps = std::max(steps, fifo.front().steps);
      *waits = std::max(*waits, fifo.front().waits);
      fifo.pop_front();
    }
    if (op.hasDst) chunks_[s.rank][op.dst] = steps;
    for (int to : op.to) fifos_[Link{s.rank, to, lane}].push_back({steps + 1, *waits + 1});
    counts_.steps = std::max(counts_.steps, steps);
    counts_.waits = std::max(counts_.waits, *waits);
    return true;
  }

  void tally(const Schedule& s) {
    const bool whole = s.collective == Collective::AllReduce || s.collective == Collective::Broadcast ||
                       s.collective == Collective::Reduce;
    int messages = 0;
    int turns = 0;
    std::set<int> partners;
    for (const Lane& lane : s.lanes) {
      int last = -1;
      for (const Op& op : lane.ops) {
        messages += static_cast<int>(op.to.size());
        for (int to : op.to) {
          partners.insert(to);
          turns += to != last ? 1 : 0;
          last = to;
        }
      }
    }
    const double sent = whole ? double(messages) / s.nChunks : messages;
    counts_.sent = std::max(counts_.sent, sent);
    counts_.sentAll += sent;
    counts_.turns = std::max(counts_.turns, turns);
    counts_.partners = std::max(counts_.partners, static_cast<int>(partners.size()));
  }

  const std::vector<Schedule>& schedules_;
  std::vector<std::map<Chunk, int>> chunks_;  // steps behind the value of each chunk of each rank
  std::map<Link, std::deque<Message>> fifos_;
  Counts counts_;
};

inline Counts count(const std::vector<Schedule>& schedules) { return Counter(schedules).run(); }

}  // namespace tutti
