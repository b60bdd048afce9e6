// tutti-doctor on machines that are made of files.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "src/base/text.hpp"
#include "tools/doctor/checks.hpp"

namespace tutti::doctor {
namespace {

namespace fs = std::filesystem;

/// A root with files in it, while it lives.
class Machine {
 public:
  Machine() : root_(fs::temp_directory_path() / cat("tutti-doctor-", ::getpid(), "-", ++made_)) {
    fs::create_directories(root_);
  }
  ~Machine() { fs::remove_all(root_); }
  Machine& file(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
    return *this;
  }
  std::string root() const { return root_.string(); }

 private:
  static inline int made_ = 0;
  fs::path root_;
};

/// The worst that is said of a subject; the last of the worst.
Finding about(const Findings& findings, const std::string& subject) {
  Finding worst{Verdict::Fine, "", "nothing is said of " + subject, ""};
  for (const Finding& f : findings) {
    if (f.subject == subject && f.verdict >= worst.verdict) worst = f;
  }
  return worst;
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("huge pages that shared memory does not get are mended by a command") {
  Machine m;
  const std::string folder = "sys/kernel/mm/transparent_hugepage/";
  m.file(folder + "enabled", "always [madvise] never").file(folder + "shmem_enabled", "always advise [never] deny");
  const Finding shared = about(checkHost(m.root()), "huge pages");
  CHECK(shared.verdict == Verdict::Slow);
  CHECK(says(shared.remedy, "echo advise >/sys/kernel/mm/transparent_hugepage/shmem_enabled"));
  CHECK(!says(shared.remedy, "echo madvise"));
  m.file(folder + "shmem_enabled", "always [advise] never deny");
  CHECK(about(checkHost(m.root()), "huge pages").verdict == Verdict::Fine);
  m.file(folder + "enabled", "always madvise [never]");
  CHECK(says(about(checkHost(m.root()), "huge pages").remedy, "echo madvise"));
  CHECK(about(checkHost(Machine().root()), "huge pages").verdict == Verdict::Note);
}

TEST_CASE("a container's limits count") {
  Machine m;
  m.file("proc/self/cgroup", "0::/job").file("proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable:    8388608 kB");
  const Findings open = checkHost(m.root());
  CHECK(about(open, "memory").verdict == Verdict::Fine);
  CHECK(about(open, "memory").what == "8192 MiB free");
  CHECK(about(open, "threads").subject.empty());
  m.file("sys/fs/cgroup/job/cpu.max", "50000 100000").file("sys/fs/cgroup/job/memory.max", "1073741824");
  m.file("sys/fs/cgroup/job/pids.max", "64");
  const Findings closed = checkHost(m.root());
  CHECK(about(closed, "processors").verdict == Verdict::Slow);
  CHECK(says(about(closed, "processors").what, "time for 0.5"));
  CHECK(says(about(closed, "processors").remedy, "at most 1 ranks"));
  CHECK(says(about(closed, "memory").what, "1024 MiB, by the limit of the container"));
  CHECK(says(about(closed, "threads").what, "64"));
  m.file("sys/fs/cgroup/job/cpu.max", "max 100000").file("sys/fs/cgroup/job/memory.max", "max");
  CHECK(!says(about(checkHost(m.root()), "processors").what, "container"));
  m.file("proc/meminfo", "MemAvailable: 102400 kB");
  CHECK(about(checkHost(m.root()), "memory").verdict == Verdict::Slow);
}

TEST_CASE("a governor that keeps the processor slow is told from Intel's of the same name") {
  Machine m;
  const std::string folder = "sys/devices/system/cpu/cpu0/cpufreq/";
  m.file(folder + "scaling_governor", "powersave").file(folder + "scaling_driver", "acpi-cpufreq");
  CHECK(about(checkHost(m.root()), "processor frequency").verdict == Verdict::Slow);
  m.file(folder + "scaling_driver", "intel_pstate");
  CHECK(about(checkHost(m.root()), "processor frequency").verdict == Verdict::Fine);
}

TEST_CASE("ports of adapters") {
  Machine m;
  CHECK(about(checkDevices(m.root()), "InfiniBand").verdict == Verdict::Note);
  const auto port = [&](const std::string& number, const std::string& state) {
    const std::string folder = cat("sys/class/infiniband/mlx5_0/ports/", number, "/");
    m.file(folder + "state", state)
        .file(folder + "rate", "400 Gb/sec (4X NDR)")
        .file(folder + "link_layer", "InfiniBand");
  };
  port("1", "4: ACTIVE");
  port("2", "2: INIT");
  port("3", "1: DOWN");
  m.file("sys/class/infiniband_verbs/uverbs0", "").file("sys/class/infiniband_verbs/abi_version", "6");
  const Findings findings = checkDevices(m.root());
  CHECK(about(findings, "mlx5_0 port 1").verdict == Verdict::Fine);
  CHECK(says(about(findings, "mlx5_0 port 1").what, "400 Gb/sec"));
  CHECK(about(findings, "mlx5_0 port 2").verdict == Verdict::Broken);
  CHECK(says(about(findings, "mlx5_0 port 2").remedy, "opensm"));
  CHECK(about(findings, "mlx5_0 port 3").verdict == Verdict::Note);
  CHECK(says(about(findings, "InfiniBand").what, "/dev/infiniband/uverbs0: No such file"));
}

TEST_CASE("a GPU without its driver, and a driver without its device files") {
  Machine m;
  CHECK(about(checkDevices(m.root()), "GPU").verdict == Verdict::Note);
  const std::string folder = "sys/bus/pci/devices/0000:01:00.0/";
  m.file(folder + "vendor", "0x10de").file(folder + "class", "0x040300");  // its sound
  CHECK(about(checkDevices(m.root()), "GPU").verdict == Verdict::Note);
  m.file(folder + "class", "0x030200");
  CHECK(about(checkDevices(m.root()), "GPU").verdict == Verdict::Broken);
  CHECK(says(about(checkDevices(m.root()), "GPU").remedy, "modprobe nvidia"));
  m.file("proc/driver/nvidia/version", "NVRM version: NVIDIA 580.1");
  const Findings hidden = checkDevices(m.root());
  const auto control = std::ranges::find_if(hidden, [](const Finding& f) { return says(f.what, "/dev/nvidiactl"); });
  REQUIRE(control != hidden.end());
  CHECK(says(control->remedy, "--gpus all"));
}

TEST_CASE("limits of TCP") {
  Machine m;
  m.file("proc/sys/net/core/somaxconn", "128").file("proc/sys/net/ipv4/ip_local_port_range", "60000\t60099");
  const Findings findings = checkNetwork(m.root());
  CHECK(says(about(findings, "TCP backlog").what, "128"));
  CHECK(says(about(findings, "TCP ports").what, "only 100"));
  m.file("proc/sys/net/core/somaxconn", "4096").file("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999");
  CHECK(about(checkNetwork(m.root()), "TCP backlog").subject.empty());
  CHECK(about(checkNetwork(m.root()), "TCP ports").subject.empty());
}

TEST_CASE("findings as text and as JSON") {
  const Findings findings{{Verdict::Fine, "a", "well", ""}, {Verdict::Slow, "b \"c\"", "slow", "mend it"}};
  CHECK(worstOf(findings) == Verdict::Slow);
  CHECK(worstOf({}) == Verdict::Fine);
  CHECK(sectionText("T", findings, false) == "T\n  fine    a: well\n  slow    b \"c\": slow\n            -> mend it\n");
  CHECK(sectionText("T", findings, true) == "T\n  slow    b \"c\": slow\n            -> mend it\n");
  CHECK(sectionText("T", {findings.front()}, true).empty());
  CHECK(findingsJson({}) == "[\n]\n");
  CHECK(says(findingsJson(findings), R"("subject": "b \"c\"", "verdict": "slow")"));
}

}  // namespace
}  // namespace tutti::doctor
