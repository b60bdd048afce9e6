// Processors, memory, limits and huge pages.
#include <sched.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdint>
#include <fstream>

#include "src/base/text.hpp"
#include "src/topology/sysfs.hpp"
#include "tools/doctor/checks.hpp"

namespace tutti::doctor {
namespace {

using topology::sysfs::line;

/// "[always] madvise never" -> "always".
std::string chosen(const std::string& words) {
  const size_t open = words.find('['), close = words.find(']');
  return open == std::string::npos || close == std::string::npos ? "" : words.substr(open + 1, close - open - 1);
}

/// A field of /proc/meminfo in bytes; 0: it is not told.
uint64_t memory(const std::string& root, const std::string& field) {
  std::ifstream in(root + "/proc/meminfo");
  for (std::string text; std::getline(in, text);) {
    uint64_t kib = 0;
    if (text.starts_with(field + ":") && std::sscanf(text.c_str() + field.size() + 1, "%lu", &kib) == 1)
      return kib << 10;
  }
  return 0;
}

/// The folder of this process in the unified hierarchy of control groups; "": there is none.
std::string controlGroup(const std::string& root) {
  std::ifstream in(root + "/proc/self/cgroup");
  for (std::string text; std::getline(in, text);) {
    if (text.starts_with("0::")) return root + "/sys/fs/cgroup" + text.substr(3);
  }
  return "";
}

Finding processors(const std::string& root) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const int usable = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 0;
  const std::string quota = line(controlGroup(root) + "/cpu.max");  // "200000 100000", "max 100000"
  const std::vector<std::string> parts = split(quota, ' ');
  int64_t time = 0, period = 0;
  if (parts.size() == 2 && parseNumber(parts[0], &time) && parseNumber(parts[1], &period) && time > 0 && period > 0 &&
      time < period * usable) {
    const double cores = static_cast<double>(time) / static_cast<double>(period);
    return {Verdict::Slow, "processors",
            cat(usable, " may be used, but the container has time for ", cores,
                ": ranks that wait are stopped for the rest of each period of ", period / 1000, " ms"),
            cat("start at most ", std::max<int64_t>(1, time / period),
                " ranks, with TUTTI_WAIT=block if they have threads of their own; or raise the container's limit "
                "(docker run --cpus, resources.limits.cpu)")};
  }
  if (usable == 1) {
    return {Verdict::Slow, "processors", "1 may be used: ranks take turns on it",
            "allow more (taskset, the launcher's binding, the container's cpuset) where there are more"};
  }
  return {Verdict::Fine, "processors", cat(usable, " may be used"), ""};
}

void addMemory(const std::string& root, Findings* findings) {
  const uint64_t available = memory(root, "MemAvailable");
  if (available == 0) return;
  uint64_t limit = 0;
  const bool limited = parseNumber(line(controlGroup(root) + "/memory.max"), &limit);
  if (limited && limit < available) {
    findings->push_back({Verdict::Note, "memory",
                         cat(limit >> 20, " MiB, by the limit of the container; what ranks share counts against it"),
                         ""});
  } else if (available < (uint64_t{1} << 30)) {
    findings->push_back({Verdict::Slow, "memory", cat("only ", available >> 20, " MiB are free"),
                         "end what uses it, or lower TUTTI_SLOT_BYTES and TUTTI_SLOTS"});
  } else {
    findings->push_back({Verdict::Fine, "memory", cat(available >> 20, " MiB free"), ""});
  }
}

/// Shared memory takes huge pages only by a setting of its own.
Finding hugePages(const std::string& root) {
  const std::string folder = root + "/sys/kernel/mm/transparent_hugepage/";
  const std::string all = chosen(line(folder + "enabled")), shared = chosen(line(folder + "shmem_enabled"));
  if (all.empty()) return {Verdict::Note, "huge pages", "this kernel has no transparent ones", ""};
  std::string commands;
  if (all == "never") commands = "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled";
  if (shared == "never" || shared == "deny")
    commands += cat(commands.empty() ? "" : "; ", "echo advise >/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  if (commands.empty()) return {Verdict::Fine, "huge pages", cat(all, ", shared memory ", shared), ""};
  return {Verdict::Slow, "huge pages",
          cat(all, ", shared memory ", shared, ": large buffers of tuttiMemAlloc have small pages"),
          cat("as root: ", commands)};
}

void addFrequency(const std::string& root, Findings* findings) {
  const std::string governor = line(root + "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (governor.empty()) return;  // virtual machines
  if (governor == "powersave" && line(root + "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver") != "intel_pstate") {
    findings->push_back({Verdict::Slow, "processor frequency", "the governor powersave keeps it at its lowest",
                         "as root: cpupower frequency-set -g performance"});
  } else {
    findings->push_back({Verdict::Fine, "processor frequency", cat("governor ", governor), ""});
  }
}

/// Each process of a rank has some threads.
void addTasks(const std::string& root, Findings* findings) {
  int64_t most = 0;
  if (!parseNumber(line(controlGroup(root) + "/pids.max"), &most) || most >= 512) return;
  findings->push_back({Verdict::Slow, "threads", cat("the container allows ", most, ", those of all ranks together"),
                       "raise its limit (docker run --pids-limit, systemd: TasksMax=)"});
}

Finding kernel() {
  utsname name{};
  if (uname(&name) != 0) return {Verdict::Note, "kernel", "does not tell its version", ""};
  int major = 0, minor = 0;
  const bool known = std::sscanf(name.release, "%d.%d", &major, &minor) == 2;
  if (known && (major < 4 || (major == 4 && minor < 14))) {
    return {Verdict::Note, "kernel", cat(name.release, " is older than any that Tutti is tested on"), ""};
  }
  return {Verdict::Fine, "kernel", cat(name.sysname, " ", name.release, " ", name.machine), ""};
}

}  // namespace

Findings checkHost(const std::string& root) {
  Findings findings{kernel(), processors(root)};
  addMemory(root, &findings);
  findings.push_back(hugePages(root));
  addFrequency(root, &findings);
  addTasks(root, &findings);
  return findings;
}

}  // namespace tutti::doctor
