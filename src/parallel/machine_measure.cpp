// The machine that a communicator runs on, for the planner.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "src/parallel/group.hpp"
#include "src/parallel/worker.hpp"
#include "tutti/parallel/kernels.h"
#include "tutti/parallel/planner.h"

using namespace tutti::parallel;

tuttiResult_t tuttiMachineMeasure(tuttiComm_t comm, tuttiMachine_t* machine) {
  return guarded([&] {
    require(machine != nullptr && machine->size == sizeof(tuttiMachine_t),
            "machine does not begin from TUTTI_MACHINE_INITIALIZER");
    const std::shared_ptr<tutti::Device> device = deviceOf(comm, TUTTI_DEVICE_HOST);
    const Group group(comm, *device);
    tuttiMachine_t m = TUTTI_MACHINE_INITIALIZER;
    m.ranks = m.perNode = group.size();
    if (group.size() > 1) {
      const auto timeUs = [&](size_t count) {
        tuttiEstimate_t e = TUTTI_ESTIMATE_INITIALIZER;
        check(tuttiCommEstimate(comm, tuttiCallAllReduce, count, tuttiFloat32, tuttiSum, 0, &e), comm);
        return e.timeUs;
      };
      const double n = group.size(), small = timeUs(2), large = timeUs(size_t{1} << 22);
      m.nodeLatencyUs = small / (2 * (n - 1));
      m.nodeBandwidth = 2 * (n - 1) / n * static_cast<double>(size_t{1} << 24) / (large - small) * 1e6;
      m.bandwidth = m.nodeBandwidth, m.latencyUs = m.nodeLatencyUs;
    }
    constexpr int64_t kSide = 256;
    std::vector<float> a(kSide * kSide, 0.5f), b = a, c = a;
    tuttiKernels_t kernels = TUTTI_KERNELS_INITIALIZER;
    if (tuttiKernelsFast(&kernels) != tuttiSuccess) fail(tuttiInternalError, tuttiParallelGetLastError());
    const tuttiMatmul_t product = {tuttiFloat32, 0,        0,        0,     kSide, kSide, kSide,
                                   a.data(),     b.data(), c.data(), kSide, kSide, kSide};
    double best = INFINITY;
    for (int i = 0; i < 5; ++i) {
      const auto start = std::chrono::steady_clock::now();
      check(kernels.matmul(kernels.context, &product), nullptr);
      best = std::min(best, millisecondsSince(start));
    }
    m.flops = 2.0 * kSide * kSide * kSide / best * 1e3;
    *machine = m;
  });
}
