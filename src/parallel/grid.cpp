// Named axes over the ranks of a communicator, and its groups.
#include "tutti/parallel/grid.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>
#include <memory>
#include <vector>

#include "src/parallel/fail.hpp"
#include "src/parallel/grid_text.hpp"
#include "src/parallel/group.hpp"

#include <unistd.h>

using namespace tutti::parallel;

struct tuttiGrid {
  tuttiComm_t world = nullptr;
  int rank = 0, nRanks = 0;
  std::vector<Axis> axes;  // innermost first
  std::vector<int> nodeOfRank;
  std::map<std::vector<int>, tuttiComm_t> groups;  // by sorted axis indices
  std::string report;

  int indexOf(const std::string& name) const {
    for (size_t i = 0; i < axes.size(); ++i) {
      if (axes[i].name == name) return static_cast<int>(i);
    }
    fail(tuttiInvalidArgument, "the grid ", describe(), " has no axis ", name);
  }
  std::string describe() const {
    std::string text;
    for (const Axis& axis : axes) text += (text.empty() ? "" : ",") + axis.name + "=" + std::to_string(axis.size);
    return text;
  }
  /// "dp-cp" as indices, sorted.
  std::vector<int> indicesOf(const char* names) const {
    std::vector<int> found;
    for (const std::string& name : splitText(names == nullptr ? "" : names, '-')) found.push_back(indexOf(name));
    require(!found.empty(), "no axis is named");
    std::sort(found.begin(), found.end());
    require(std::adjacent_find(found.begin(), found.end()) == found.end(), "an axis comes twice in ", names);
    return found;
  }
  int place(int r, int axis) const {
    for (int a = 0; a < axis; ++a) r /= axes[static_cast<size_t>(a)].size;
    return r % axes[static_cast<size_t>(axis)].size;
  }
  int checkedRank(int r) const {
    require(r >= -1 && r < nRanks, "there is no rank ", r, " of ", nRanks);
    return r < 0 ? rank : r;
  }
  /// Ranks that differ from r along these axes only, ascending.
  std::vector<int> members(const std::vector<int>& along, int r) const {
    std::vector<int> found;
    for (int other = 0; other < nRanks; ++other) {
      bool same = true;
      for (int a = 0; a < static_cast<int>(axes.size()) && same; ++a) {
        same = std::find(along.begin(), along.end(), a) != along.end() || place(other, a) == place(r, a);
      }
      if (same) found.push_back(other);
    }
    return found;
  }
};

namespace {

std::unique_ptr<tuttiGrid> arranged(tuttiComm_t world, const char* axes) {
  auto grid = std::make_unique<tuttiGrid>();
  grid->world = world;
  require(world != nullptr, "world is NULL");
  check(tuttiCommUserRank(world, &grid->rank), world);
  check(tuttiCommCount(world, &grid->nRanks), world);
  grid->axes = parseAxes(axes == nullptr ? "" : axes, grid->nRanks);
  return grid;
}

/// A number for the host: its boot, which two hosts do not share.
uint64_t hostNumber() {
  std::string text;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> text;
  char name[256] = {};
  ::gethostname(name, sizeof(name) - 1);
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : text + name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

void learnNodes(tuttiGrid& grid) {
  std::vector<uint64_t> hosts(static_cast<size_t>(grid.nRanks));
  hosts[static_cast<size_t>(grid.rank)] = hostNumber();
  check(tuttiAllGather(&hosts[static_cast<size_t>(grid.rank)], hosts.data(), 1, tuttiUint64, grid.world, nullptr),
        grid.world);
  for (const uint64_t host : hosts) {
    grid.nodeOfRank.push_back(static_cast<int>(std::find(hosts.begin(), hosts.end(), host) - hosts.begin()));
  }
}

/// Two ranks of one group along `axis` on different nodes, the first such pair; false if there is none.
bool leavesNode(const tuttiGrid& grid, int axis, int* a, int* b) {
  for (int r = 0; r < grid.nRanks; ++r) {
    for (const int other : grid.members({axis}, r)) {
      if (grid.nodeOfRank[static_cast<size_t>(other)] == grid.nodeOfRank[static_cast<size_t>(r)]) continue;
      *a = r;
      *b = other;
      return true;
    }
  }
  return false;
}

void checkPlacement(tuttiGrid& grid) {
  grid.report.clear();
  std::string within;  // the outermost axis that stays inside nodes
  for (int axis = static_cast<int>(grid.axes.size()) - 1; axis >= 0; --axis) {
    const Axis& is = grid.axes[static_cast<size_t>(axis)];
    if (is.size == 1) continue;
    int a = 0, b = 0;
    if (!leavesNode(grid, axis, &a, &b)) {
      if (within.empty()) within = is.name;
    } else if (!within.empty()) {
      grid.report +=
          joined("axis ", is.name, " leaves its node (rank ", a, " on node ", grid.nodeOfRank[static_cast<size_t>(a)],
                 ", rank ", b, " on node ", grid.nodeOfRank[static_cast<size_t>(b)], ") while the outer axis ", within,
                 " stays inside nodes; number the ranks node by node\n");
    }
  }
}

void checkShared(const tuttiGrid& a, const tuttiGrid& b, const char* shared) {
  if (shared == nullptr || *shared == '\0') return;
  for (const std::string& name : splitText(shared, '-')) {
    for (int r = 0; r < a.nRanks; ++r) {
      require(a.members({a.indexOf(name)}, r) == b.members({b.indexOf(name)}, r), "rank ", r,
              " has other companions along ", name, " in ", b.describe(), " than in ", a.describe());
    }
  }
}

}  // namespace

tuttiResult_t tuttiGridCreate(tuttiGrid_t* grid, tuttiComm_t world, const char* axes, const tuttiGridConfig_t* config) {
  return guardedIf(grid != nullptr, "grid is NULL", [&] {
    *grid = nullptr;
    const auto options = takeConfig<tuttiGridConfig_t>(config, TUTTI_GRID_CONFIG_INITIALIZER, "config");
    auto made = arranged(world, axes);
    if (options.nodeOfRank != nullptr) {
      made->nodeOfRank.assign(options.nodeOfRank, options.nodeOfRank + made->nRanks);
    }
    *grid = made.release();
  });
}

tuttiResult_t tuttiGridView(tuttiGrid_t* view, tuttiGrid_t grid, const char* axes, const char* shared) {
  return guardedIf(view != nullptr && grid != nullptr, "view or grid is NULL", [&] {
    *view = nullptr;
    auto made = arranged(grid->world, axes);
    checkShared(*grid, *made, shared);
    made->nodeOfRank = grid->nodeOfRank;
    *view = made.release();
  });
}

tuttiResult_t tuttiGridDestroy(tuttiGrid_t grid) {
  return guarded([&] {
    if (grid == nullptr) return;
    const std::unique_ptr<tuttiGrid> owned(grid);
    tuttiResult_t first = tuttiSuccess;
    std::string why;
    const bool stopped = hasFailed(owned->world);
    for (const auto& [axes, comm] : owned->groups) {
      if (comm == owned->world) continue;
      if (stopped || hasFailed(comm)) {  // nobody is waited for
        tuttiCommAbort(comm);
        continue;
      }
      const tuttiResult_t result = tuttiCommDestroy(comm);
      if (result != tuttiSuccess && first == tuttiSuccess) {
        first = result;
        why = tuttiGetLastError(nullptr);
      }
    }
    if (first != tuttiSuccess) throw Failure{first, why};
  });
}

tuttiResult_t tuttiGridSize(tuttiGrid_t grid, const char* axes, int* size) {
  return guardedIf(grid != nullptr && size != nullptr, "grid or size is NULL", [&] {
    int product = 1;
    for (const int axis : grid->indicesOf(axes)) product *= grid->axes[static_cast<size_t>(axis)].size;
    *size = product;
  });
}

tuttiResult_t tuttiGridCoordinate(tuttiGrid_t grid, const char* axes, int rank, int* coordinate) {
  return guardedIf(grid != nullptr && coordinate != nullptr, "grid or coordinate is NULL", [&] {
    const int r = grid->checkedRank(rank);
    int sum = 0, step = 1;
    for (const int axis : grid->indicesOf(axes)) {  // innermost first, as the ranks of a group are ordered
      sum += grid->place(r, axis) * step;
      step *= grid->axes[static_cast<size_t>(axis)].size;
    }
    *coordinate = sum;
  });
}

tuttiResult_t tuttiGridRankAt(tuttiGrid_t grid, const char* place, int* rank) {
  return guardedIf(grid != nullptr && place != nullptr && rank != nullptr, "grid, place or rank is NULL", [&] {
    std::vector<int> at;
    for (int a = 0; a < static_cast<int>(grid->axes.size()); ++a) at.push_back(grid->place(grid->rank, a));
    for (const Axis& named : parsePairs(place)) {
      const size_t axis = static_cast<size_t>(grid->indexOf(named.name));
      require(named.size < grid->axes[axis].size, "axis ", named.name, " has ", grid->axes[axis].size,
              " places, there is no ", named.size);
      at[axis] = named.size;
    }
    *rank = 0;
    for (size_t a = at.size(); a-- > 0;) *rank = *rank * grid->axes[a].size + at[a];
  });
}

tuttiResult_t tuttiGridMembers(tuttiGrid_t grid, const char* axes, int rank, int* ranks, int capacity, int* count) {
  return guarded([&] {
    require(grid != nullptr && count != nullptr && (ranks != nullptr || capacity == 0), "grid, ranks or count is NULL");
    const std::vector<int> found = grid->members(grid->indicesOf(axes), grid->checkedRank(rank));
    *count = static_cast<int>(found.size());
    for (int i = 0; i < std::min(capacity, *count); ++i) ranks[i] = found[static_cast<size_t>(i)];
  });
}

tuttiResult_t tuttiGridGroup(tuttiGrid_t grid, const char* axes, tuttiComm_t* comm) {
  return guardedIf(grid != nullptr && comm != nullptr, "grid or comm is NULL", [&] {
    const std::vector<int> along = grid->indicesOf(axes);
    const auto known = grid->groups.find(along);
    if (known != grid->groups.end()) {
      *comm = known->second;
      return;
    }
    const std::vector<int> members = grid->members(along, grid->rank);
    tuttiComm_t made = grid->world;
    if (static_cast<int>(members.size()) < grid->nRanks) {
      made = splitFrom(grid->world, members[0], grid->rank);
    }
    grid->groups[along] = made;
    *comm = made;
  });
}

tuttiResult_t tuttiGridCheck(tuttiGrid_t grid, const char** report) {
  return guardedIf(grid != nullptr && report != nullptr, "grid or report is NULL", [&] {
    if (grid->nodeOfRank.empty()) learnNodes(*grid);
    checkPlacement(*grid);
    *report = grid->report.c_str();
  });
}
