#include "src/comm/plans.hpp"

namespace tutti {

bool PlanKey::operator==(const PlanKey& o) const {
  const bool sameCounts = counts == o.counts || (counts && o.counts && *counts == *o.counts);
  return collective == o.collective && dtype == o.dtype && ordered == o.ordered && inPlace == o.inPlace &&
         narrow == o.narrow && resident == o.resident && way == o.way && root == o.root && count == o.count &&
         sameCounts;
}

size_t PlanKey::hash() const {
  size_t hash = 0xcbf29ce484222325;
  const auto mix = [&hash](size_t value) { hash = (hash ^ value) * 0x9e3779b97f4a7c15 ^ (hash >> 29); };
  mix(static_cast<size_t>(collective) << 8 | static_cast<size_t>(dtype) << 2 | size_t{ordered} << 1 | size_t{inPlace});
  mix(static_cast<size_t>(root));
  mix(count << 2 | size_t{narrow} << 1 | size_t{resident});
  mix(way);
  if (counts) {
    for (const auto* list :
         {&counts->sendCounts, &counts->sendDispls, &counts->recvCounts, &counts->recvDispls, &counts->all}) {
      for (const size_t value : *list) mix(value);
    }
  }
  return hash;
}

std::shared_ptr<const PlanEntry> PlanCache::find(const PlanKey& key) {
  if (!order_.empty() && order_.front().first == key) return order_.front().second;
  const auto found = byKey_.find(key);
  if (found == byKey_.end()) return nullptr;
  order_.splice(order_.begin(), order_, found->second);
  return order_.front().second;
}

std::shared_ptr<const PlanEntry> PlanCache::insert(const PlanKey& key, PlanEntry entry) {
  if (order_.size() >= kMostPlans) {
    byKey_.erase(order_.back().first);
    order_.pop_back();
  }
  order_.emplace_front(key, std::make_shared<const PlanEntry>(std::move(entry)));
  byKey_[key] = order_.begin();
  return order_.front().second;
}

void PlanCache::clear() {
  byKey_.clear();
  order_.clear();
}

}  // namespace tutti
