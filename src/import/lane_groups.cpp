#include "src/import/lane_groups.hpp"

#include <map>

#include "src/import/pieces.hpp"

namespace tutti::foreign {
namespace {

class Union {
 public:
  explicit Union(size_t n) : parent_(n) {
    for (size_t i = 0; i < n; ++i) parent_[i] = static_cast<int>(i);
  }
  int find(int x) {
    while (parent_[at(x)] != x) x = parent_[at(x)] = parent_[at(parent_[at(x)])];
    return x;
  }
  void join(int a, int b) { parent_[at(find(a))] = find(b); }

 private:
  std::vector<int> parent_;
};

/// The channels that use a cell.
struct Users {
  std::vector<int> channels;  // each once
  bool written = false;
};

}  // namespace

LaneGroups groupLanes(const Program& program, const MemoryMap& memory, int most) {
  std::map<int, int> number;  // of the channels that there are
  for (const Thread& thread : program.threads) number.emplace(thread.channel, 0);
  int next = 0;
  for (auto& [channel, index] : number) index = next++;

  std::vector<Users> users(memory.nCells());
  for (const Thread& thread : program.threads) {
    const int channel = number[thread.channel];
    for (const Step& step : thread.steps) {
      const auto use = [&](const Place& place, bool writes) {
        for (int piece = firstPiece(step, memory.refine()); piece < lastPiece(step, memory.refine()); ++piece) {
          Users& cell = users[memory.cell(place, piece)];
          cell.written = cell.written || writes;
          bool known = false;
          for (const int other : cell.channels) known = known || other == channel;
          if (!known) cell.channels.push_back(channel);
        }
      };
      for (const Place& place : step.sources) use(place, false);
      for (const Place& place : step.targets) use(place, true);
    }
  }
  Union groups(number.size());
  for (const Users& cell : users) {
    for (const int channel : cell.channels) {
      if (cell.written) groups.join(channel, cell.channels.front());
    }
  }

  LaneGroups result;
  std::map<int, int> laneOfGroup;
  for (const auto& [channel, index] : number) {
    laneOfGroup.emplace(groups.find(index), static_cast<int>(laneOfGroup.size()) % most);
  }
  for (const Thread& thread : program.threads) {
    result.laneOf.push_back(laneOfGroup[groups.find(number[thread.channel])]);
  }
  result.nLanes = program.threads.empty() ? 1 : std::min(most, static_cast<int>(laneOfGroup.size()));
  return result;
}

}  // namespace tutti::foreign
