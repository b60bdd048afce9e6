#include "tools/sim/nccl_fit.hpp"

#include <cmath>

#include "tools/sim/ask.hpp"
#include "tools/sim/fill.hpp"

namespace tutti::sim {
namespace {

using nccl_model::Fitted;

Result<std::vector<NcclPoint>> pointsIn(const PublishedSet& set) {
  std::vector<NcclPoint> points;
  std::map<std::string, nccl_model::Machine> machines;
  for (const PublishedPoint& point : set.points) {
    const std::string text = filled(set, set.specification, {}, point);
    if (!machines.contains(text)) {
      TUTTI_ASSIGN(const Cluster cluster, loadCluster(text));
      TUTTI_ASSIGN(const Network network, Network::make(cluster));
      TUTTI_ASSIGN(machines[text], nccl_model::machineOf(network));
    }
    Collective collective = Collective::AllReduce;
    parseCollective(point.collective != nullptr ? point.collective : set.collective, &collective);
    points.push_back({machines[text], collective, &*set.nccl, point.bytes, point.us, set.doubt != nullptr});
  }
  return points;
}

/// Fits begin with a slot of LL, with all of NCCL's rate of a channel by LL128, and with a bare launch.
constexpr Fitted kUnfitted = {.drainBytes = 64e3, .reduceShare = 1, .aloneUs = 5};

constexpr double Fitted::*kFitted[] = {&Fitted::drainBytes, &Fitted::reduceShare, &Fitted::aloneUs};

}  // namespace

Result<nccl_model::Prediction> predicted(const NcclPoint& p, const Fitted& fitted) {
  return nccl_model::predict(p.machine, p.collective, p.bytes, *p.settings, fitted);
}

Result<LeftOut> LeftOut::make(const std::vector<PublishedSet>& sets) {
  LeftOut all;
  for (const PublishedSet& set : sets) {
    if (!set.nccl) continue;
    TUTTI_ASSIGN(all.points_[&set], pointsIn(set));
  }
  return all;
}

/// Mean of the logarithms' sizes: one odd set weighs no more than its points.
double LeftOut::misfit(const Fitted& fitted, const std::string& generation) const {
  double sum = 0;
  int count = 0;
  for (const auto& [set, points] : points_) {
    for (const NcclPoint& point : points) {
      if (point.doubted || point.generation() == generation) continue;
      const auto p = predicted(point, fitted);
      sum += p.ok() ? std::abs(std::log(p->us() / point.us)) : 0;
      ++count;
    }
  }
  return sum / std::max(1, count);
}

const Fitted& LeftOut::without(const std::string& generation) {
  const auto known = fitted_.find(generation);
  if (known != fitted_.end()) return known->second;
  constexpr double kFinest = 1.005;
  Fitted best = kUnfitted;
  double least = misfit(best, generation);
  for (double factor = 1.3; factor > kFinest;) {
    bool better = false;
    for (double Fitted::*constant : kFitted) {
      for (const double by : {factor, 1 / factor}) {
        Fitted other = best;
        other.*constant *= by;
        const double cost = misfit(other, generation);
        if (cost >= least) continue;
        least = cost;
        best = other;
        better = true;
      }
    }
    if (!better) factor = std::sqrt(factor);
  }
  return fitted_[generation] = best;
}

std::string LeftOut::text() const {
  std::string text;
  for (const auto& [generation, f] : fitted_) {
    text += cat("  ", generation.empty() ? "with all sets" : "without " + generation, ": fences ",
                shortNumber(f.drainBytes / 1e3), " kB at a block's rate, LL128 reducing ", shortNumber(f.reduceShare),
                ", calls alone ", shortNumber(f.aloneUs), " us more\n");
  }
  return text;
}

}  // namespace tutti::sim
