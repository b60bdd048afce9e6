#include "tools/trace/simulated.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "algorithms/algorithm.hpp"
#include "src/base/text.hpp"
#include "src/base/types.hpp"
#include "tools/cluster/simulate.hpp"

namespace tutti::trace {
namespace {

/// All that a call's time depends on.
struct Kind {
  uint32_t collective = 0, dtype = 0, root = 0;
  uint64_t count = 0;
  std::string algorithm;
  auto operator<=>(const Kind&) const = default;
};

class Simulator {
 public:
  explicit Simulator(const sim::Network& network) : network_(network) {}

  /// None: it cannot be simulated.
  std::optional<double> usOf(const Kind& kind) {
    const auto known = times_.find(kind);
    if (known != times_.end()) return known->second;
    return times_.emplace(kind, simulateOne(kind)).first->second;
  }

 private:
  std::optional<double> simulateOne(const Kind& kind) const {
    const auto collective = static_cast<Collective>(kind.collective);
    const Algorithm* const algorithm = findAlgorithm(collective, kind.algorithm);
    if (algorithm == nullptr) return {};
    sim::Task task;
    task.algorithm = algorithm;
    task.bytes = kind.count * dataTypeBytes(static_cast<tuttiDataType_t>(kind.dtype));
    task.root = static_cast<int>(kind.root);
    const Result<sim::Outcome> outcome = sim::simulate(network_, task, {});
    return outcome.ok() ? std::optional(outcome->us) : std::nullopt;
  }

  const sim::Network& network_;
  std::map<Kind, std::optional<double>> times_;
};

/// When the last rank entered it.
int64_t lastStart(const Job& job, const Communicator& c, uint64_t sequence) {
  int64_t last = INT64_MIN;
  for (int rank = 0; rank < c.nRanks; ++rank) {
    const Record* const record = c.find(rank, sequence);
    if (record != nullptr) last = std::max(last, job.timeNs(*c.ranks[static_cast<size_t>(rank)], record->startedNs));
  }
  return last;
}

void simulateThose(const Job& job, size_t index, Simulator* simulator, Simulated* out) {
  const Communicator& c = job.communicators[index];
  const auto known = std::find_if(c.collectives.begin(), c.collectives.end(), [](const auto& m) { return !m.empty(); });
  if (known == c.collectives.end()) return;
  const int rank = static_cast<int>(known - c.collectives.begin());
  for (const auto& [sequence, place] : *known) {
    const RankTrace& trace = *c.ranks[static_cast<size_t>(rank)];
    const Record& record = trace.records[place];
    const CallParts parts = partsOf(callOf(record));
    if (parts.kind >= static_cast<uint32_t>(kNumCollectives) || !validDataType(static_cast<int>(parts.dtype))) {
      ++out->leftOut;
      continue;
    }
    const std::optional<double> us =
        simulator->usOf({parts.kind, parts.dtype, parts.root, parts.count, algorithmOf(trace, record)});
    if (!us) {
      ++out->leftOut;
      continue;
    }
    out->calls.push_back({index, nameOf(record), lastStart(job, c, sequence), *us});
  }
}

}  // namespace

Result<Simulated> simulateCalls(const Job& job, const std::string& cluster) {
  TUTTI_ASSIGN(const sim::Cluster described, sim::loadCluster(cluster));
  TUTTI_ASSIGN(const sim::Network network, sim::Network::make(described));
  Simulator simulator(network);
  Simulated all;
  bool some = false;
  for (size_t i = 0; i < job.communicators.size(); ++i) {
    const Communicator& c = job.communicators[i];
    if (c.nRanks == described.nRanks()) {
      some = true;
      simulateThose(job, i, &simulator, &all);
    } else if (!c.collectives.empty()) {
      all.leftOut += static_cast<int>(c.collectives[0].size());
    }
  }
  if (some) return all;
  return invalidUsage("--simulate: the cluster has ", described.nRanks(),
                      " ranks, and no communicator has as many; the largest has ", job.communicators.front().nRanks);
}

}  // namespace tutti::trace
