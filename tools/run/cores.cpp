#include "tools/run/cores.hpp"

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

namespace tutti::run {

std::vector<int> parseCpuList(const std::string& text) {
  std::vector<int> cpus;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    int first = 0, last = 0;
    char dash = 0;
    std::istringstream range(part);
    if (!(range >> first)) continue;
    if (!(range >> dash >> last)) last = first;
    for (int cpu = first; cpu <= last && cpu < CPU_SETSIZE; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

std::vector<Core> allowedCores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return {};
  std::vector<Core> cores;
  std::set<int> seen;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(static_cast<size_t>(cpu), &allowed) || seen.contains(cpu)) continue;
    std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
    std::string text;
    std::getline(file, text);
    Core core{cpu};
    for (int sibling : parseCpuList(text)) {
      if (sibling != cpu && CPU_ISSET(static_cast<size_t>(sibling), &allowed)) core.push_back(sibling);
    }
    seen.insert(core.begin(), core.end());
    cores.push_back(std::move(core));
  }
  return cores;
}

std::vector<std::vector<int>> placeRanks(const std::vector<Core>& cores, int nRanks, Bind bind) {
  const size_t n = static_cast<size_t>(nRanks), nCores = cores.size();
  if (bind == Bind::None || nCores == 0 || (nCores < n && n % nCores != 0)) return {};
  std::vector<std::vector<int>> places(n);
  for (size_t r = 0; r < n; ++r) {
    const size_t first = bind == Bind::Core ? r % nCores : r * nCores / n;
    const size_t last = bind == Bind::Core ? first + 1 : std::max(first + 1, (r + 1) * nCores / n);
    for (size_t c = first; c < last; ++c) places[r].insert(places[r].end(), cores[c].begin(), cores[c].end());
  }
  return places;
}

}  // namespace tutti::run
