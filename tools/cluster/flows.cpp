#include "tools/cluster/flows.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "src/base/assert.hpp"

namespace tutti::sim {
namespace {

constexpr double kBytesPerPs = 1e-3;  // of 1 GB/s

}  // namespace

Flows::Flows(std::vector<double> capacityGBps, int32_t mostExact) : mostExact_(mostExact), links_(capacityGBps.size()) {
  for (size_t i = 0; i < links_.size(); ++i) links_[i].capacity = capacityGBps[i];
}

void Flows::touch(int32_t link) {
  Link& l = links_[static_cast<size_t>(link)];
  if (l.dirty) return;
  l.dirty = true;
  dirtyLinks_.push_back(link);
}

int32_t Flows::start(std::span<const int32_t> links, double bytes, double mostGBps, Picoseconds now) {
  TUTTI_ASSERT(bytes > 0 && mostGBps > 0);
  if (freeFlows_.empty()) {
    freeFlows_.push_back(static_cast<int32_t>(flows_.size()));
    flows_.emplace_back();
  }
  const int32_t id = freeFlows_.back();
  freeFlows_.pop_back();
  Flow& flow = flows_[static_cast<size_t>(id)];
  flow.links = links;
  flow.positions.clear();
  flow.remaining = bytes;
  flow.most = mostGBps;
  flow.rate = 0;
  flow.since = now;
  flow.active = true;
  for (const int32_t link : links) {
    Link& l = links_[static_cast<size_t>(link)];
    flow.positions.push_back(static_cast<int32_t>(l.flows.size()));
    l.flows.push_back(id);
    l.demand += mostGBps;
    if (full(l)) touch(link);
  }
  newFlows_.push_back(id);
  ++active_;
  return id;
}

void Flows::finish(int32_t id) {
  Flow& flow = flows_[static_cast<size_t>(id)];
  TUTTI_ASSERT(flow.active);
  for (size_t i = 0; i < flow.links.size(); ++i) {
    Link& l = links_[static_cast<size_t>(flow.links[i])];
    if (full(l)) touch(flow.links[i]);
    const auto position = static_cast<size_t>(flow.positions[i]);
    const int32_t moved = l.flows.back();
    l.flows[position] = moved;
    l.flows.pop_back();
    if (moved != id) {
      Flow& other = flows_[static_cast<size_t>(moved)];
      for (size_t k = 0; k < other.links.size(); ++k) {
        if (other.links[k] == flow.links[i]) other.positions[k] = static_cast<int32_t>(position);
      }
    }
    l.demand = l.flows.empty() ? 0 : l.demand - flow.most;
  }
  flow.active = false;
  ++flow.version;
  freeFlows_.push_back(id);
  --active_;
}

void Flows::visitFlow(int32_t id) {
  Flow& flow = flows_[static_cast<size_t>(id)];
  if (flow.visit == visit_) return;
  flow.visit = visit_;
  flow.fixed = false;
  component_.push_back(id);
}

/// A full link among those that are divided anew; if not as a whole, then what it leaves beside transfers that keep
/// their rates.
void Flows::include(int32_t link, bool whole) {
  Link& l = links_[static_cast<size_t>(link)];
  l.visit = visit_;
  componentLinks_.push_back(link);
  l.left = l.capacity;
  l.unfixed = static_cast<int32_t>(l.flows.size());
  for (const int32_t id : l.flows) {
    if (whole) visitFlow(id);
    const Flow& flow = flows_[static_cast<size_t>(id)];
    if (flow.visit == visit_) continue;
    l.left -= flow.rate;
    --l.unfixed;
  }
}

/// Everything that a change can reach over full links; among very many, what is on the links that have changed.
void Flows::collect() {
  ++visit_;
  component_.clear();
  componentLinks_.clear();
  for (const int32_t id : newFlows_) {
    if (flows_[static_cast<size_t>(id)].active) visitFlow(id);
  }
  for (const int32_t link : dirtyLinks_) {
    links_[static_cast<size_t>(link)].dirty = false;
    for (const int32_t id : links_[static_cast<size_t>(link)].flows) visitFlow(id);
  }
  newFlows_.clear();
  dirtyLinks_.clear();
  // Links that are not dirty can be reached over by others only while few are under way; else the rest of them stays.
  const bool whole = active_ <= mostExact_;
  for (size_t i = 0; i < component_.size(); ++i) {
    for (const int32_t link : flows_[static_cast<size_t>(component_[i])].links) {
      const Link& l = links_[static_cast<size_t>(link)];
      if (l.visit != visit_ && full(l)) include(link, whole);
    }
  }
}

void Flows::fix(int32_t id, double rate) {
  Flow& flow = flows_[static_cast<size_t>(id)];
  flow.fixed = true;
  flow.next = rate;
  for (const int32_t link : flow.links) {
    Link& l = links_[static_cast<size_t>(link)];
    if (l.visit != visit_) continue;
    l.left = std::max(0.0, l.left - rate);
    --l.unfixed;
  }
}

/// Rates rise together; who meets its own limit or a full link stays there.
void Flows::fill() {
  if (componentLinks_.empty()) {
    for (const int32_t id : component_) fix(id, flows_[static_cast<size_t>(id)].most);
    return;
  }
  std::sort(component_.begin(), component_.end(), [&](int32_t a, int32_t b) {
    return flows_[static_cast<size_t>(a)].most < flows_[static_cast<size_t>(b)].most;
  });
  shares_.clear();
  const auto shareOf = [&](int32_t link) {
    const Link& l = links_[static_cast<size_t>(link)];
    return l.left / l.unfixed;
  };
  for (const int32_t link : componentLinks_) shares_.emplace_back(shareOf(link), link);
  std::make_heap(shares_.begin(), shares_.end(), std::greater<>());
  size_t slowest = 0;
  const auto skipFixed = [&] {
    while (slowest < component_.size() && flows_[static_cast<size_t>(component_[slowest])].fixed) ++slowest;
  };
  for (skipFixed(); slowest < component_.size(); skipFixed()) {
    const double most = flows_[static_cast<size_t>(component_[slowest])].most;
    if (shares_.empty() || most <= shares_.front().first) {
      fix(component_[slowest], most);
      continue;
    }
    std::pop_heap(shares_.begin(), shares_.end(), std::greater<>());
    const auto [share, link] = shares_.back();
    shares_.pop_back();
    if (links_[static_cast<size_t>(link)].unfixed == 0) continue;
    // Shares only grow as others are fixed: one that is out of date goes back in.
    if (const double present = shareOf(link); present > share * (1 + 1e-12)) {
      shares_.emplace_back(present, link);
      std::push_heap(shares_.begin(), shares_.end(), std::greater<>());
      continue;
    }
    for (const int32_t id : links_[static_cast<size_t>(link)].flows) {
      if (!flows_[static_cast<size_t>(id)].fixed) fix(id, share);
    }
  }
}

void Flows::apply(int32_t id, Picoseconds now) {
  Flow& flow = flows_[static_cast<size_t>(id)];
  if (flow.rate > 0 && std::abs(flow.next - flow.rate) <= flow.rate * 1e-12) return;
  flow.remaining -= flow.rate * kBytesPerPs * static_cast<double>(now - flow.since);
  flow.since = now;
  flow.rate = flow.next;
  ++flow.version;
  const double ps = std::min(std::max(0.0, flow.remaining) / (flow.rate * kBytesPerPs), 2.0 * kMostTime);
  endings_.push_back({id, flow.version, now + static_cast<Picoseconds>(std::ceil(ps - 1e-6))});
}

std::span<const Flows::Ending> Flows::settle(Picoseconds now) {
  endings_.clear();
  if (settled()) return endings_;
  collect();
  fill();
  for (const int32_t id : component_) apply(id, now);
  return endings_;
}

}  // namespace tutti::sim
