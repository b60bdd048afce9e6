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
    points.push_back({machines[text], collective, &*set.nccl, point.bytes, point.us, set.site});
  }
  return points;
}

constexpr double Fitted::*kFitted[] = {&Fitted::launchUs, &Fitted::sliceUs, &Fitted::reduceShare};

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
double LeftOut::misfit(const Fitted& fitted, const std::string& site) const {
  double sum = 0;
  int count = 0;
  for (const auto& [set, points] : points_) {
    for (const NcclPoint& point : points) {
      if (point.site == site) continue;
      const auto p = predicted(point, fitted);
      sum += p.ok() ? std::abs(std::log(p->us() / point.us)) : 0;
      ++count;
    }
  }
  return sum / std::max(1, count);
}

const Fitted& LeftOut::without(const std::string& site) {
  const auto known = fitted_.find(site);
  if (known != fitted_.end()) return known->second;
  constexpr double kFinest = 1.005;
  Fitted best;
  double least = misfit(best, site);
  for (double factor = 1.3; factor > kFinest;) {
    bool better = false;
    for (double Fitted::*constant : kFitted) {
      for (const double by : {factor, 1 / factor}) {
        Fitted other = best;
        other.*constant *= by;
        const double cost = misfit(other, site);
        if (cost >= least) continue;
        least = cost;
        best = other;
        better = true;
      }
    }
    if (!better) factor = std::sqrt(factor);
  }
  return fitted_[site] = best;
}

std::string LeftOut::text() const {
  std::string text;
  for (const auto& [site, f] : fitted_) {
    text += cat("  ", site.empty() ? "with all sets" : "without " + site, ": launch of a process's further GPUs ",
                shortNumber(f.launchUs), " us, second slice ", shortNumber(f.sliceUs), " us, LL128 reducing ",
                shortNumber(f.reduceShare), "\n");
  }
  return text;
}

}  // namespace tutti::sim
