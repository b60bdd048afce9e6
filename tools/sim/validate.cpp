#include "tools/sim/validate.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "tools/cluster/simulate.hpp"
#include "tools/sim/ask.hpp"
#include "tools/sim/published.hpp"

namespace tutti::sim {
namespace {

constexpr int kRounds = 150;        // of looking for better constants
constexpr double kPlateau = 64e6;   // bytes from which bandwidth is all
constexpr double kSmall = 1 << 20;  // bytes below which latency is most

constexpr int kCallsInRow = 3;

int ranksOf(const PublishedSet& set, const PublishedPoint& point) {
  return point.ranks > 0 ? point.ranks : set.ranksPerNode;
}

std::string filled(const PublishedSet& set, const char* cluster, const std::vector<double>& constants,
                   const PublishedPoint& point) {
  std::string text;
  for (const char* c = cluster; *c != 0; ++c) {
    if (*c != '$') {
      text += *c;
    } else if (*++c == 'N') {
      text += cat(point.nodes);
    } else if (*c == 'R') {
      text += cat(ranksOf(set, point));
    } else {
      char number[32];
      std::snprintf(number, sizeof number, "%.6g", constants[static_cast<size_t>(*c - 'a')]);
      text += number;
    }
  }
  return text;
}

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

struct Errors {
  double sumLog = 0, worst = 0;
  int count = 0;
  void add(double ratio) {
    const double error = std::max(ratio, 1 / ratio) - 1;
    sumLog += std::log1p(error);
    worst = std::max(worst, error);
    ++count;
  }
  void add(const Errors& others) {
    sumLog += others.sumLog;
    worst = std::max(worst, others.worst);
    count += others.count;
  }
  std::string text() const {
    if (count == 0) return "       -        -";
    char line[64];
    std::snprintf(line, sizeof line, "%6.1f %%  %6.1f %%", 100 * std::expm1(sumLog / count), 100 * worst);
    return line;
  }
};

constexpr const char* kRanges[] = {"below 1 MB", "1 to 64 MB", "from 64 MB"};

int rangeOf(double bytes) { return bytes >= kPlateau ? 2 : bytes < kSmall ? 0 : 1; }

struct SetErrors {
  Errors fitted[3], held[3], specified[3];
};

std::string rangeLines(const char* what, const Errors (&errors)[3]) {
  std::string text;
  for (int range = 0; range < 3; ++range) {
    if (errors[range].count == 0) continue;
    text += cat("  ", what, ", ", kRanges[range], ": mean and worst error ", errors[range].text(), "\n");
  }
  return text;
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
Result<std::string> comparedWith(const PublishedSet& set, const char* cluster, const std::vector<double>& constants,
                                 const PublishedPoint& point, Errors* errors) {
  if (cluster == nullptr) return padded("-", 23);
  TUTTI_ASSIGN(const double us, simulatedUs(set, cluster, constants, point));
  errors[rangeOf(point.bytes)].add(us / point.us);
  char text[64];
  std::snprintf(text, sizeof text, "%13.2f %+7.1f %%", us, 100 * (us / point.us - 1));
  return std::string(text);
}

/// Of every range: the mean over all points of all sets, and the worst.
std::string summary(const std::vector<std::pair<std::string, SetErrors>>& all) {
  std::string text = "mean and worst error by set: from specification only | with the set's constants, held out\n";
  Errors specified[3], held[3];
  const auto row = [&](const std::string& name, const Errors(&a)[3], const Errors(&b)[3]) {
    text += cat("  ", name, "\n");
    for (int range = 0; range < 3; ++range) {
      if (a[range].count + b[range].count == 0) continue;
      text += cat("    ", padded(kRanges[range], 10), "  ", a[range].text(), "  | ", b[range].text(), "\n");
    }
  };
  for (const auto& [name, errors] : all) {
    row(name, errors.specified, errors.held);
    for (int range = 0; range < 3; ++range) {
      specified[range].add(errors.specified[range]);
      if (errors.specified[range].count > 0) held[range].add(errors.held[range]);
    }
  }
  row("all sets that have a specification", specified, held);
  return text;
}

}  // namespace

Result<std::string> validate(bool fit, const std::string& name) {
  std::string text;
  std::vector<PublishedSet> sets = publishedSets();
  for (PublishedSet& set : measuredSets()) sets.push_back(std::move(set));
  std::erase_if(sets, [&](const PublishedSet& set) { return set.name.find(name) == std::string::npos; });
  if (sets.empty()) return invalidUsage("--sets ", name, ": no set has that in its name");
  std::vector<std::pair<std::string, SetErrors>> all;
  for (const PublishedSet& set : sets) {
    const std::vector<double> constants = fit && set.cluster != nullptr ? fitted(set) : set.constants;
    text +=
        cat(set.name, "\n  ", set.source, "; simulated: ", *set.algorithms != 0 ? set.algorithms : "what ran", "\n");
    text += constantLines(set, constants);
    text += "   nodes     bytes    measured us  with constants    error  by specification    error\n";
    SetErrors errors;
    std::map<int, Errors> ofRanks;  // held out, by ranks of a node
    for (const PublishedPoint& point : set.points) {
      Errors one[3];
      TUTTI_ASSIGN(const std::string with, comparedWith(set, set.cluster, constants, point, one));
      TUTTI_ASSIGN(const std::string by, comparedWith(set, set.specification, {}, point, errors.specified));
      const int range = rangeOf(point.bytes);
      (point.fitted ? errors.fitted : errors.held)[range].add(one[range]);
      if (!point.fitted && point.ranks > 0) ofRanks[point.ranks].add(one[range]);
      std::string what = point.fitted ? "fitted  " : "        ";
      if (point.ranks > 0) what += cat(point.ranks, " ranks, ", point.collective, " ", point.algorithm);
      char line[160];
      std::snprintf(line, sizeof line, "  %6d  %8s  %13.2f  ", point.nodes,
                    formatBytes(static_cast<size_t>(point.bytes)).c_str(), point.us);
      const std::string row = cat(line, with, "  ", by, "  ", what);
      text += row.substr(0, row.find_last_not_of(' ') + 1) + "\n";
    }
    text += rangeLines("fitted  ", errors.fitted) + rangeLines("held out", errors.held) +
            rangeLines("from specification", errors.specified);
    for (const auto& [ranks, of] : ofRanks) {
      text += cat("  held out, ", ranks, " ranks: mean and worst error ", of.text(), "\n");
    }
    text += "\n";
    all.emplace_back(set.name, errors);
  }
  text += summary(all);
  return text;
}

}  // namespace tutti::sim
