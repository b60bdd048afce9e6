// How long planning a call takes: the first of its kind, one of another size, and one of a size that was planned
// before.
#include <cstdio>
#include <ctime>

#include "src/plan/estimates.hpp"
#include "tools/version.hpp"
#include "transport/shm/entry.hpp"
#include "transport/table.hpp"
#include "transport/tcp/entry.hpp"

using namespace tutti;

namespace {

PlanRequest request(Collective collective, int hosts, int perHost, size_t bytes) {
  PlanRequest r;
  r.shape = {.collective = collective, .nRanks = hosts * perHost, .bytes = bytes};
  if (perHost > 1) r.links.intra = kShmProcesses;
  if (hosts > 1) {
    r.links.inter = kTcpRemote;
    for (int rank = 0; rank < r.shape.nRanks; ++rank) r.shape.nodeOf.push_back(rank / perHost);
  }
  r.directPossible = perHost > 1;
  r.mostChannels = 8;
  r.joinBytes = mostJoinedBytes(r.links, r.shape.slotBytes);
  return r;
}

/// Of this process's processor time, which other programs on the machine do not stretch.
double cpuUs() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

double planUs(const PlanRequest& r, const Calibration& c, Estimates* estimates, const char** name) {
  const double begin = cpuUs();
  const auto choice = plan(r, c, estimates);
  *name = choice.ok() ? choice->name().data() : "none";
  return cpuUs() - begin;
}

}  // namespace

int main(int argc, char** argv) {
  if (tutti::printsVersion(argc, argv)) return 0;
  const Calibration c = defaultCalibration(thisMachine(), linkKinds());
  std::printf("%-14s %6s x %-5s %10s %14s %14s %14s\n", "collective", "hosts", "ranks", "bytes", "cold us",
              "new size us", "kept us");
  const int jobs[][2] = {{1, 2}, {1, 8}, {1024, 1}, {128, 8}};
  for (const auto& [hosts, perHost] : jobs) {
    for (int i = 0; i < kNumCollectives; ++i) {
      for (const size_t bytes : {size_t{1} << 10, size_t{16} << 20}) {
        const auto collective = static_cast<Collective>(i);
        Estimates estimates;
        const char* name = nullptr;
        const double cold = planUs(request(collective, hosts, perHost, bytes), c, &estimates, &name);
        const double anew = planUs(request(collective, hosts, perHost, bytes * 2), c, &estimates, &name);
        const double kept = planUs(request(collective, hosts, perHost, bytes), c, &estimates, &name);
        std::printf("%-14s %6d x %-5d %10zu %14.0f %14.0f %14.1f  %s\n", collectiveKey(collective), hosts, perHost,
                    bytes, cold, anew, kept, name);
      }
    }
  }
  return 0;
}
