#include "tools/sim/validate.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "perf/common/progress.hpp"
#include "tools/cluster/simulate.hpp"
#include "tools/sim/ask.hpp"
#include "tools/sim/fill.hpp"
#include "tools/sim/nccl_fit.hpp"

namespace tutti::sim {
namespace {

constexpr int kRounds = 150;  // of looking for better constants
constexpr int kCallsInRow = 3;

/// The best of the set's algorithms on that description.
Result<double> simulatedUs(const PublishedSet& set, const char* cluster, const std::vector<double>& constants,
                           const PublishedPoint& point) {
  Question question;
  question.cluster = filled(set, cluster, constants, point);
  question.collective = point.collective != nullptr ? point.collective : set.collective;
  question.outOfPlace = set.inRows;
  question.single = point.algorithm != nullptr;  // as Tutti's executor sends
  question.algorithm = point.algorithm != nullptr ? point.algorithm : set.algorithms;
  TUTTI_ASSIGN(const Asked asked, understand(question));
  TUTTI_ASSIGN(const Network network, Network::make(asked.cluster));
  // nccl-tests name the whole vector, a Shape one rank's block.
  const bool whole = asked.collective == Collective::AllReduce;
  const double bytes = whole ? point.bytes : point.bytes / asked.cluster.nRanks();
  double best = 1e300;
  for (const Algorithm* algorithm : asked.algorithms) {
    const Task task = asked.taskFor(algorithm, static_cast<size_t>(bytes));
    TUTTI_ASSIGN(const Outcome outcome, simulate(network, task,
                                                 {.detail = Detail::Fewest,
                                                  .asMachine = cluster == set.specification,
                                                  .mostLoops = 3,
                                                  .calls = set.inRows ? kCallsInRow : 1}));
    best = std::min(best, outcome.us);
  }
  return best;
}

/// Mean square of the logarithms of simulated / measured, over the fitted points.
double misfit(const PublishedSet& set, const std::vector<double>& constants) {
  double sum = 0;
  int count = 0;
  for (const PublishedPoint& point : set.points) {
    if (!point.fitted) continue;
    const auto us = simulatedUs(set, set.cluster, constants, point);
    if (!us.ok()) return 1e300;
    sum += std::pow(std::log(*us / point.us), 2);
    ++count;
  }
  return sum / std::max(1, count);
}

/// One constant after the other up or down by a factor that shrinks (Hooke & Jeeves 1961).
std::vector<double> fitted(const PublishedSet& set) {
  std::vector<double> best = set.constants;
  double least = misfit(set, best), factor = 1.3;
  for (int round = 0; round < kRounds && factor > 1.002; ++round) {
    bool better = false;
    for (size_t i = 0; i < best.size(); ++i) {
      for (const double by : {factor, 1 / factor}) {
        std::vector<double> other = best;
        other[i] *= by;
        if (const double cost = misfit(set, other); cost < least) {
          least = cost;
          best = other;
          better = true;
        }
      }
    }
    if (!better) factor = std::sqrt(factor);
  }
  return best;
}

std::string constantLines(const PublishedSet& set, const std::vector<double>& constants) {
  std::string text;
  for (size_t i = 0; i < constants.size(); ++i) {
    char line[160];
    std::snprintf(line, sizeof line, "  %10.5g  %s\n", constants[i], set.constantNames[i]);
    text += line;
  }
  if (set.specification != nullptr) text += cat("  from specification: ", set.specification, "\n");
  return text;
}

/// "   123.40   +3.4 %", and what it is off counts.
std::string compared(double us, const PublishedPoint& point, RangeErrors* errors) {
  (*errors)[static_cast<size_t>(rangeOf(point.bytes))].add(us / point.us);
  char text[64];
  std::snprintf(text, sizeof text, "%13.2f %+7.1f %%", us, 100 * (us / point.us - 1));
  return text;
}

/// A set beside what is predicted for it.
class Comparison {
 public:
  Comparison(const PublishedSet& set, std::vector<double> constants, LeftOut* nccl)
      : set_(set), constants_(std::move(constants)), nccl_(nccl) {
    errors_.name = set.name;
    errors_.doubted = set.doubt != nullptr;
  }

  Result<std::string> text() {
    std::string text = cat(set_.name, "\n  ", set_.source, "; simulated: ", whatRan(), "\n");
    if (set_.doubt != nullptr) text += cat("  in doubt: ", set_.doubt, "\n");
    text += constantLines(set_, constants_);
    text += "   nodes     bytes    measured us  with constants    error  by specification    error\n";
    for (size_t i = 0; i < set_.points.size(); ++i) {
      TUTTI_ASSIGN(const std::string line, row(i));
      text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    text += rangeLines("fitted  ", errors_.fitted) + rangeLines("held out", errors_.held) +
            rangeLines("from specification", errors_.specified);
    for (const auto& [ranks, of] : ofRanks_) {
      text += cat("  held out, ", ranks, " ranks: mean and worst error ", of.text(), "\n");
    }
    return text + "\n";
  }

  const SetErrors& errors() const { return errors_; }

 private:
  std::string whatRan() const {
    if (set_.nccl)
      return cat("NCCL", set_.nccl->gpusPerProcess > 1 ? ", one process for all GPUs of a node" : "",
                 set_.nccl->alone ? ", calls alone" : "");
    return *set_.algorithms != 0 ? set_.algorithms : "what ran";
  }

  Result<std::string> row(size_t i) {
    const PublishedPoint& point = set_.points[i];
    std::string with = padded("-", 23);
    if (set_.cluster != nullptr) {
      TUTTI_ASSIGN(const double us, simulatedUs(set_, set_.cluster, constants_, point));
      with = compared(us, point, point.fitted ? &errors_.fitted : &errors_.held);
      if (!point.fitted && point.ranks > 0) ofRanks_[point.ranks].add(us / point.us);
    }
    TUTTI_ASSIGN(std::string by, specified(i));
    std::string what = point.fitted ? "fitted  " : "        ";
    if (point.ranks > 0) what += cat(point.ranks, " ranks, ", point.collective, " ", point.algorithm);
    char line[160];
    std::snprintf(line, sizeof line, "  %6d  %8s  %13.2f  ", point.nodes,
                  formatBytes(static_cast<size_t>(point.bytes)).c_str(), point.us);
    return cat(line, with, "  ", by, "  ", what);
  }

  /// From the specification: by NCCL's model where NCCL ran, else by Tutti's schedules.
  Result<std::string> specified(size_t i) {
    const PublishedPoint& point = set_.points[i];
    if (set_.specification == nullptr) return padded("-", 23);
    if (!set_.nccl) {
      TUTTI_ASSIGN(const double us, simulatedUs(set_, set_.specification, {}, point));
      return compared(us, point, &errors_.specified);
    }
    const NcclPoint& as = nccl_->pointsOf(set_)[i];
    TUTTI_ASSIGN(const auto p, predicted(as, nccl_->without(as.generation())));
    return cat(compared(p.us(), point, &errors_.specified), "  ", nccl_model::nameOf(p.best().way), " ",
               nccl_model::nameOf(p.best().protocol), p.launchUs > p.best().time.us() ? ", launches" : "");
  }

  const PublishedSet& set_;
  std::vector<double> constants_;
  LeftOut* nccl_;
  SetErrors errors_;
  std::map<int, Errors> ofRanks_;  // held out, by ranks of a node
};

}  // namespace

Result<std::string> validate(bool fit, const std::string& name) {
  const std::vector<PublishedSet> sets = publishedSets();
  TUTTI_ASSIGN(LeftOut nccl, LeftOut::make(sets));
  std::string text;
  std::vector<SetErrors> all;
  perf::Progress progress(sets.size(), "sets");
  for (const PublishedSet& set : sets) {
    if (set.name.find(name) == std::string::npos) continue;
    progress.show(static_cast<size_t>(&set - sets.data()), set.name);
    Comparison comparison(set, fit && set.cluster != nullptr ? fitted(set) : set.constants, &nccl);
    TUTTI_ASSIGN(const std::string one, comparison.text());
    text += one;
    all.push_back(comparison.errors());
  }
  if (all.empty()) return invalidUsage("--sets ", name, ": no set has that in its name");
  if (fit) nccl.without("");
  return text + "NCCL's model, fitted with the sets of all other generations of GPUs\n" + nccl.text() + "\n" +
         summary(all);
}

Result<RangeErrors> ncclErrors(bool doubted) {
  const std::vector<PublishedSet> sets = publishedSets();
  TUTTI_ASSIGN(LeftOut nccl, LeftOut::make(sets));
  RangeErrors errors;
  for (const PublishedSet& set : sets) {
    if (!set.nccl || (set.doubt != nullptr && !doubted)) continue;
    for (const NcclPoint& point : nccl.pointsOf(set)) {
      TUTTI_ASSIGN(const auto p, predicted(point, nccl.without(point.generation())));
      errors[static_cast<size_t>(rangeOf(point.bytes))].add(p.us() / point.us);
    }
  }
  return errors;
}

}  // namespace tutti::sim
