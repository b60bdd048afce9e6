// One of a few ranks as processes: every collective on tuttiMemAlloc memory, on malloc's, and on a mixture by rank, out
// of place, in place, and either by rank, so that a call's messages go by mappings, by process_vm_readv and by slots,
// as each sender chooses.  Exit status 0 if every element was right.
#include <cstdio>

#include "tests/support/collective_check.hpp"

using namespace tutti::test;

namespace {

enum class Mixture : int { All, EvenRanks, None };

bool holds(Mixture mixture, const Rank& r) {
  return mixture == Mixture::All || (mixture == Mixture::EvenRanks && r.rank % 2 == 0);
}

std::string checkMixture(const Rank& r, Mixture mixture) {
  const bool allocated = holds(mixture, r);
  for (const size_t count : {size_t{1}, size_t{5000}, size_t{40'961}, size_t{150'001}}) {
    CheckOptions o;
    o.count = count;
    o.memory = allocated ? Memory::Allocated : Memory::Plain;
    o.root = r.nRanks - 1;
    for (const Mixture inPlace : {Mixture::None, Mixture::EvenRanks, Mixture::All}) {
      o.inPlace = holds(inPlace, r);
      o.shift = o.inPlace ? 0 : 4;
      if (std::string why = checkEverything(r, o); !why.empty()) {
        return why + " (count " + std::to_string(count) + ", mixture " + std::to_string(static_cast<int>(mixture)) +
               ", in place " + std::to_string(static_cast<int>(inPlace)) + ")";
      }
    }
  }
  return "";
}

}  // namespace

int main() {
  Rank r{};
  std::string why = failed(tuttiCommInitEnv(&r.comm, nullptr), "join");
  if (why.empty()) {
    tuttiCommUserRank(r.comm, &r.rank);
    tuttiCommCount(r.comm, &r.nRanks);
  }
  for (const Mixture mixture : {Mixture::All, Mixture::EvenRanks, Mixture::None}) {
    if (why.empty()) why = checkMixture(r, mixture);
  }
  if (why.empty()) why = failed(tuttiCommDestroy(r.comm), "destroy");
  if (!why.empty()) std::fprintf(stderr, "rank %d: %s\n", r.rank, why.c_str());
  return why.empty() ? 0 : 1;
}
