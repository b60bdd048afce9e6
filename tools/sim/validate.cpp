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

std::string filled(const PublishedSet& set, const std::vector<double>& constants, const PublishedPoint& point) {
  std::string text;
  for (const char* c = set.cluster; *c != 0; ++c) {
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

/// The best of the set's algorithms.
Result<double> simulatedUs(const PublishedSet& set, const std::vector<double>& constants, const PublishedPoint& point) {
  Question question;
  question.cluster = filled(set, constants, point);
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
    TUTTI_ASSIGN(
        const Outcome outcome,
        simulate(network, task, {.detail = Detail::Fewest, .mostLoops = 3, .calls = set.inRows ? kCallsInRow : 1}));
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
    const auto us = simulatedUs(set, constants, point);
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
  std::string text() const {
    if (count == 0) return "       -        -";
    char line[64];
    std::snprintf(line, sizeof line, "%6.1f %%  %6.1f %%", 100 * std::expm1(sumLog / count), 100 * worst);
    return line;
  }
};

}  // namespace

Result<std::string> validate(bool fit, const std::string& name) {
  std::string text;
  std::vector<PublishedSet> sets = publishedSets();
  for (PublishedSet& set : measuredSets()) sets.push_back(std::move(set));
  std::erase_if(sets, [&](const PublishedSet& set) { return set.name.find(name) == std::string::npos; });
  if (sets.empty()) return invalidUsage("--sets ", name, ": no set has that in its name");
  for (const PublishedSet& set : sets) {
    const std::vector<double> constants = fit ? fitted(set) : set.constants;
    text +=
        cat(set.name, "\n  ", set.source, "; simulated: ", *set.algorithms != 0 ? set.algorithms : "what ran", "\n");
    for (size_t i = 0; i < constants.size(); ++i) {
      char line[160];
      std::snprintf(line, sizeof line, "  %10.5g  %s\n", constants[i], set.constantNames[i]);
      text += line;
    }
    text += "   nodes     bytes    measured us   simulated us    error\n";
    Errors errors[2][3];            // [held out][small, between, plateau]
    std::map<int, Errors> ofRanks;  // held out, by ranks of a node
    for (const PublishedPoint& point : set.points) {
      TUTTI_ASSIGN(const double us, simulatedUs(set, constants, point));
      errors[point.fitted ? 0 : 1][point.bytes >= kPlateau ? 2 : point.bytes < kSmall ? 0 : 1].add(us / point.us);
      if (!point.fitted && point.ranks > 0) ofRanks[point.ranks].add(us / point.us);
      std::string what = point.fitted ? "fitted  " : "        ";
      if (point.ranks > 0) what += cat(point.ranks, " ranks, ", point.collective, " ", point.algorithm);
      char line[160];
      std::snprintf(line, sizeof line, "  %6d  %8s  %13.2f  %13.2f  %+6.1f %%  %s\n", point.nodes,
                    formatBytes(static_cast<size_t>(point.bytes)).c_str(), point.us, us, 100 * (us / point.us - 1),
                    what.substr(0, what.find_last_not_of(' ') + 1).c_str());
      text += line;
    }
    const char* kRanges[] = {"below 1 MB", "between", "from 64 MB"};
    for (int held = 0; held < 2; ++held) {
      for (int range = 0; range < 3; ++range) {
        if (errors[held][range].count == 0) continue;
        text += cat("  ", held ? "held out" : "fitted  ", ", ", kRanges[range], ": mean and worst error ",
                    errors[held][range].text(), "\n");
      }
    }
    for (const auto& [ranks, of] : ofRanks) {
      text += cat("  held out, ", ranks, " ranks: mean and worst error ", of.text(), "\n");
    }
    text += "\n";
  }
  return text;
}

}  // namespace tutti::sim
