// Choices that are kept, and estimates that communicators of a process share.
#include <algorithm>
#include <map>

#include "src/plan/estimates.hpp"

namespace tutti {
namespace {

/// A program's calls are of few kinds; more, and the oldest are made again.
constexpr size_t kMostChoices = 64;

template <class T>
void append(std::string* key, const std::vector<T>& values) {
  *key += cat(values.size(), ':');
  key->append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

/// All that estimates depend on beside what they are asked for.
std::string machineOf(const PlanRequest& r, const Calibration& c) {
  const auto link = [](const std::optional<LinkProfile>& one) { return cat(one ? one->key : "", ";"); };
  std::string key;
  append(&key, std::vector<double>{double(r.shape.nRanks), double(r.shape.slotBytes), r.links.ranksPerCore,
                                   double(r.mostChannels), double(r.overrides.nChannels),
                                   r.levels != nullptr ? 1.0 : 0.0, r.links.nodesShareCores ? 1.0 : 0.0});
  key += link(r.links.intra) + link(r.links.inter);
  append(&key, r.shape.nodeOf);
  append(&key, r.shape.railOf);
  for (const std::vector<int>& groups : r.shape.inner) append(&key, groups);
  if (r.levels != nullptr) {
    for (const MachineLevel& level : *r.levels) {
      key += link(level.link);
      append(&key, std::vector<double>{level.portGBps});
      append(&key, level.groupOf);
    }
  }
  if (r.device != nullptr) {
    const DeviceCosts& d = *r.device;
    append(&key, std::vector<double>{double(d.way), d.memoryGBps, d.blockGBps, d.links.portGBps, d.links.pairGBps,
                                     double(d.links.nvlink)});
    append(&key, d.links.deviceOf);
  }
  return key + toText(c) + (r.tuning != nullptr ? toText(*r.tuning) : "");
}

}  // namespace

Result<Choice> Estimates::chosen(const PlanRequest& r, const std::function<Result<Choice>()>& make) {
  if (!r.ready.empty()) return make();
  const Shape& s = r.shape;
  const Call call{s.collective, s.bytes,          s.root,       s.inPlace,   s.commutative,  s.uneven,
                  r.wholeTable, r.directPossible, r.boardBytes, r.joinBytes, fewElements(r), r.mostChannels,
                  r.mostLanes,  r.within,         r.wire,       r.wireShare};
  const std::lock_guard lock(choosing_);
  for (const Kept& kept : choices_) {
    if (kept.call == call && kept.overrides == r.overrides) return kept.choice;
  }
  TUTTI_ASSIGN(Choice choice, make());
  if (choices_.size() < kMostChoices) {
    choices_.push_back({call, r.overrides, choice});
  } else {
    choices_[oldest_++ % kMostChoices] = {call, r.overrides, choice};
  }
  return choice;
}

std::shared_ptr<Estimates> sharedEstimates(const PlanRequest& request, const Calibration& calibration) {
  // Never destroyed: communicators may be made while a program ends.
  static auto& mutex = *new std::mutex;
  static auto& all = *new std::map<std::string, std::weak_ptr<Estimates>>;
  const std::string key = machineOf(request, calibration);
  const std::lock_guard lock(mutex);
  std::erase_if(all, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Estimates>& known = all[key];
  std::shared_ptr<Estimates> estimates = known.lock();
  if (estimates == nullptr) known = estimates = std::make_shared<Estimates>();
  return estimates;
}

}  // namespace tutti
