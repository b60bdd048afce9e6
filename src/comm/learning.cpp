#include "src/comm/learning.hpp"

#include <cmath>

#include "src/base/text.hpp"
#include "src/cost/kept_text.hpp"
#include "src/device/host/host_memory.hpp"

namespace tutti {
namespace {

/// Programs make few kinds of calls; of those that come later nothing is learned.
constexpr size_t kMostKinds = 4096;

}  // namespace

void TriedWay::addTo(Collective collective, Overrides* overrides) const {
  if (planned) return;
  overrides->algorithm[static_cast<size_t>(collective)] = algorithm;
  overrides->protocol = protocol;
  overrides->joined = joined;
  overrides->strict = false;
}

bool isMapped(const void* send, const void* recv) {
  return hostLookup(send, 1).has_value() || hostLookup(recv, 1).has_value();
}

std::string describe(const TriedWay& way) {
  if (way.algorithm == nullptr) return "a plan of its own";
  return cat(way.algorithm->name, ", ", protocolName(way.protocol), way.joined ? ", chunks joined" : "",
             way.copied ? ", copied" : "");
}

uint64_t hashOf(const std::vector<TriedWay>& ways) {
  uint64_t hash = ways.size();
  for (const TriedWay& way : ways) hash = hashText(describe(way), hash);
  return hash;
}

std::vector<uint64_t> Learning::Kind::figures() const {
  return trials.wants() == Trials::Wants::Ways ? std::vector{hashOf(ways)} : trials.times();
}

std::string usText(uint64_t ns) { return number(std::round(static_cast<double>(ns) / 10) / 100); }

Learning::Key Learning::keyOf(const Call& call) {
  if (call.collective == Collective::Barrier) return {call.collective, tuttiInt8, tuttiSum, 0, 0};
  const bool reduces = callReduces(call);
  return {call.collective, call.dtype, reduces ? call.op : tuttiSum, callIsRooted(call) ? call.root : 0, call.count};
}

/// By calls: at most about half of what the plans of all ways take, the first time, when their own plan is made.
/// Through boards: 0.03 to 0.3 ms to open them, once, and then some microseconds
/// (perf/results/learning-2core-epyc.txt).
int64_t Learning::comparisonNs() const {
  if (!comparison_) return prices_.planNs / 2;
  return comparison_->wasUsed() ? prices_.planNs / 50 : prices_.planNs / 4;
}

Learning::Kind* Learning::kindOf(const Call& call) {
  if (call.kind != CallKind::Collective || call.counts || call.custom != nullptr) return nullptr;
  if (call.count == 0 && call.collective != Collective::Barrier) return nullptr;
  const Key key = keyOf(call);
  const auto found = kinds_.find(key);
  if (found != kinds_.end()) return &found->second;
  if (kinds_.size() == kMostKinds) return nullptr;
  const int parts = blocksOfCall(call.collective, prices_.nRanks);
  const double bytes = static_cast<double>(call.count) * static_cast<double>(dataTypeBytes(call.dtype)) * parts;
  const Trials trials(
      {.planNs = prices_.planNs, .comparisonNs = comparisonNs(), .callNs = prices_.callNs + bytes * prices_.nsPerByte});
  return &kinds_.try_emplace(key, Kind{.trials = trials}).first->second;
}

std::optional<TriedWay> Learning::taken(const Call& call) const {
  const std::lock_guard lock(mutex_);
  const auto found = taken_.find(keyOf(call));
  if (found == taken_.end()) return std::nullopt;
  return found->second;
}

void Learning::settled(const Call& call, const Kind& kind) {
  const std::lock_guard lock(mutex_);
  taken_[keyOf(call)] = kind.ways[kind.trials.taken()];
}

void Learning::clear() {
  kinds_.clear();
  const std::lock_guard lock(mutex_);
  taken_.clear();
}

}  // namespace tutti
