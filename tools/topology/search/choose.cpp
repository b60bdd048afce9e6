#include "tools/topology/search/choose.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace tutti::topology {
namespace {

constexpr double kBetter = 1.001;  // what is not better by more is rounding
constexpr size_t kSpeedsWithCare = 4;
constexpr int kTries = 12;

Chosen pack(const Machine& machine, const std::vector<Searched>& searched, double gbps, size_t most, int tries) {
  Chosen chosen{gbps, {}};
  size_t count = most;
  for (size_t m = 0; m < searched.size(); ++m) {
    chosen.columns.push_back(
        packChannels(machine.models[m], searched[m].rules, searched[m].packing, gbps, count, tries));
    count = std::min(count, chosen.columns.back().size());
  }
  for (auto& columns : chosen.columns) columns.resize(count);
  return chosen;
}

/// Speeds worth trying, highest first: those that divide the total, or a link, evenly.
std::vector<double> speeds(const Machine& machine, double total, double highest, size_t most) {
  std::vector<double> all;
  const size_t least = static_cast<size_t>(std::max(1.0, std::ceil(total / highest - 1e-6)));
  for (size_t k = least; k <= std::max(least, most); ++k) all.push_back(total / static_cast<double>(k));
  for (const HostModel& model : machine.models) {
    for (const double capacity : std::set<double>(model.capacity.begin(), model.capacity.end())) {
      for (int parts = 1; parts <= 8; ++parts) all.push_back(capacity / parts);
    }
  }
  std::erase_if(all, [&](double gbps) {
    const double fit = std::min(static_cast<double>(most), std::floor(total / gbps + 1e-6));
    return gbps > highest * (1 + 1e-9) || fit * gbps < 0.5 * total;
  });
  if (all.empty()) all.push_back(std::min(highest, total));
  std::sort(all.begin(), all.end(), std::greater<>());
  all.erase(std::unique(all.begin(), all.end(), [](double a, double b) { return a - b < 1e-6 * a; }), all.end());
  return all;
}

/// What a plan is worth, in GB/s: every channel occupies a part of each device, so few fast ones are better.
double worthOf(double gbps, double count) { return gbps * count * (1 - 0.004 * count); }

int railOf(const HostModel& model, int port) {
  if (port < 0) return -1;
  const int rail = model.rails[static_cast<size_t>(port)];
  return rail >= 0 ? rail : port;
}

/// Channel c of every kind of host on the same rail where they have it: sorted by the first kind's rails, the others
/// brought into that order.
void alignRails(const Machine& machine, Chosen* chosen) {
  const auto key = [&](size_t m, const Column& c) {
    return std::pair(railOf(machine.models[m], c.entry), railOf(machine.models[m], c.exit));
  };
  auto& first = chosen->columns.front();
  std::stable_sort(first.begin(), first.end(), [&](const Column& a, const Column& b) { return key(0, a) < key(0, b); });
  for (size_t m = 1; m < chosen->columns.size(); ++m) {
    auto& columns = chosen->columns[m];
    for (size_t c = 0; c < columns.size(); ++c) {
      const auto same = std::find_if(columns.begin() + static_cast<ptrdiff_t>(c), columns.end(),
                                     [&](const Column& column) { return key(m, column) == key(0, first[c]); });
      if (same != columns.end()) std::iter_swap(columns.begin() + static_cast<ptrdiff_t>(c), same);
    }
  }
}

}  // namespace

Chosen chooseChannels(const Machine& machine, const std::vector<Searched>& searched, double highest, size_t most) {
  double total = kNoWay;
  for (const Searched& s : searched) total = std::min(total, s.packing.total);
  Chosen best;
  const auto worth = [](const Chosen& c) { return worthOf(c.gbps, static_cast<double>(c.count())); };
  const auto possible = [&](double gbps) {
    return worthOf(gbps, std::min(static_cast<double>(most), std::floor(total / gbps + 1e-6)));
  };
  std::vector<double> all = speeds(machine, total, highest, most);
  for (const double gbps : all) {
    if (possible(gbps) <= worth(best) * kBetter) continue;
    Chosen chosen = pack(machine, searched, gbps, most, 0);
    if (worth(chosen) > worth(best) * kBetter) best = std::move(chosen);
  }
  // The most promising speeds once more, with care.
  std::stable_sort(all.begin(), all.end(), [&](double a, double b) { return possible(a) > possible(b); });
  for (size_t i = 0; i < all.size() && i < kSpeedsWithCare; ++i) {
    if (possible(all[i]) <= worth(best) * kBetter) break;
    Chosen chosen = pack(machine, searched, all[i], most, kTries);
    if (worth(chosen) > worth(best) * kBetter) best = std::move(chosen);
  }
  if (best.count() > 0) alignRails(machine, &best);
  return best;
}

}  // namespace tutti::topology
