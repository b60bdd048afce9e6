// Launches whose blocks wait for each other, beside a kernel of somebody else's that holds the device.
#include <fcntl.h>
#include <unistd.h>

#include <barrier>
#include <catch2/catch.hpp>

#include "tests/support/gpu.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/support/variable.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

/// What is written to stderr while this lives.
class WatchedLog {
 public:
  WatchedLog() : path_(folder_.path() + "/said"), kept_(dup(STDERR_FILENO)) {
    const int file = open(path_.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    dup2(file, STDERR_FILENO);
    close(file);
  }
  ~WatchedLog() {
    dup2(kept_, STDERR_FILENO);
    close(kept_);
  }
  WatchedLog(const WatchedLog&) = delete;
  WatchedLog& operator=(const WatchedLog&) = delete;
  std::string text() const {
    std::string all;
    char part[4096];
    const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    for (ssize_t n = 0; (n = read(file, part, sizeof part)) > 0;) all.append(part, static_cast<size_t>(n));
    close(file);
    return all;
  }
  /// Whether the words come, at last.
  bool comes(const char* words) const {
    for (int looks = 0; looks < 600; ++looks) {
      if (text().find(words) != std::string::npos) return true;
      usleep(100'000);
    }
    return false;
  }

 private:
  TempFolder folder_;
  std::string path_;
  int kept_;
};

constexpr int kCalls = 6;

/// Calls that follow each other, of which the second does not start before the end.  groups: rank 0 makes the third and
/// the fourth in one group, which settles how both go; the other rank makes one after the other.
std::string callsBesideSpinning(const Rank& r, const GpuRank& own, bool groups, const WatchedLog& said,
                                std::barrier<>* all) {
  const DeviceFloats x(own, 1000);
  const auto call = [&] {
    return tuttiAllReduce(x.data(), x.data(), x.count(), tuttiFloat, tuttiSum, r.comm, own.asTutti());
  };
  const auto together = [&](const std::function<void()>& task) {
    all->arrive_and_wait();
    if (r.rank == 0) task();
    all->arrive_and_wait();
  };
  x.fill(1);
  RANK_TRY(call());
  RANK_CHECK(own.synchronize().empty());
  together([] { FakeCuda::get().occupy(31); });  // of 32 blocks, so that what needs one goes on
  RANK_TRY(call());
  bool came = false;
  together([&] { came = said.comes("has not started on CUDA device 0"); });
  RANK_CHECK(came || r.rank != 0);
  if (groups && r.rank == 0) RANK_TRY(tuttiGroupStart());
  for (int c = 2; c < 4; ++c) RANK_TRY(call());
  if (groups && r.rank == 0) RANK_TRY(tuttiGroupEnd());
  for (int c = 4; c < kCalls; ++c) RANK_TRY(call());
  together([] { FakeCuda::get().occupy(0); });
  RANK_CHECK(own.synchronize().empty());
  return x.check(0, x.count(), 1 << kCalls);
}

}  // namespace

TEST_CASE("a launch that other kernels keep from starting is reported, and all ranks go by streams from one call on") {
  struct Row {
    const char* executor;
    bool groups;
    int launches;
    const char* advice;
  };
  const Row row = GENERATE(values<Row>({{"auto", false, 3, "enqueues those that would need that by streams"},
                                        {"auto", true, 4, "enqueues those that would need that by streams"},
                                        {"resident", false, kCalls, "TUTTI_CUDA_EXECUTOR=stream needs no such room"}}));
  CAPTURE(row.executor, row.groups);
  const Variable where("TUTTI_DEVICE", "cuda"), way("TUTTI_CUDA_EXECUTOR", row.executor),
      algorithm("TUTTI_ALGO", "ring");
  {
    const Gpu gpu;
    if (FakeCuda::get().occupy == nullptr) return;
    const WatchedLog said;
    std::barrier all(2);
    CHECK(onGpuRanks(2, 1, [&](const Rank& r, GpuRank& own) {
            const std::string why = callsBesideSpinning(r, own, row.groups, said, &all);
            if (!why.empty()) FakeCuda::get().occupy(0);
            return why;
          }) == "");
    CHECK(FakeCuda::get().calls("cuLaunchCooperativeKernel") == row.launches);
    CHECK(said.text().find(row.advice) != std::string::npos);
  }
  CHECK(Gpu::complaints() == "");
}
