// InfiniBand adapters and NVIDIA GPUs.
#include <dlfcn.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "src/base/text.hpp"
#include "src/topology/sysfs.hpp"
#include "tools/doctor/checks.hpp"

namespace tutti::doctor {
namespace {

using topology::sysfs::line;
using topology::sysfs::names;

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

/// "" or why the library cannot be loaded.  It stays loaded: some do not bear being unloaded.
std::string loadError(const char* library) {
  if (dlopen(library, RTLD_NOW | RTLD_LOCAL) != nullptr) return "";
  const char* const why = dlerror();
  return why != nullptr ? why : "it cannot be loaded";
}

void addPorts(const std::string& root, const std::string& device, Findings* findings) {
  const std::string folder = cat(root, "/sys/class/infiniband/", device, "/ports/");
  for (const std::string& port : names(folder)) {
    const std::string state = line(folder + port + "/state");  // "4: ACTIVE"
    const std::string kind = line(folder + port + "/link_layer"), rate = line(folder + port + "/rate");
    const std::string name = cat(device, " port ", port);
    if (state.find("ACTIVE") != std::string::npos) {
      findings->push_back({Verdict::Fine, name, cat(kind, ", ", rate), ""});
    } else if (state.find("INIT") != std::string::npos) {
      findings->push_back({Verdict::Broken, name, cat(kind, ", state ", state, ": no subnet manager has set it up"),
                           "start opensm on one host of the fabric, or switch on that of the switch"});
    } else {
      findings->push_back({Verdict::Note, name, cat(kind, ", state ", state), cat("ip link, ibstat ", device)});
    }
  }
}

/// Adapters read and write locked memory alone.
Finding lockedMemory() {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  if (limit.rlim_cur == RLIM_INFINITY || ::geteuid() == 0) return {Verdict::Fine, "locked memory", "no limit", ""};
  const bool some = limit.rlim_cur >= (rlim_t{64} << 20);  // a few MiB for each peer, beside what programs register
  if (limit.rlim_cur >= (rlim_t{1} << 30))
    return {Verdict::Fine, "locked memory", cat(limit.rlim_cur >> 20, " MiB"), ""};
  return {
      some ? Verdict::Slow : Verdict::Broken, "locked memory",
      cat("at most ", limit.rlim_cur >> 10, " KiB: adapters cannot register ", some ? "large buffers" : "buffers"),
      "\"* - memlock unlimited\" in /etc/security/limits.conf and a new login; LimitMEMLOCK=infinity for the service "
      "that starts ranks (slurmd); docker run --ulimit memlock=-1"};
}

void addInfiniband(const std::string& root, Findings* findings) {
  const std::vector<std::string> devices = names(root + "/sys/class/infiniband");
  if (devices.empty()) {
    findings->push_back({Verdict::Note, "InfiniBand", "no adapter; TCP joins hosts", ""});
    return;
  }
  if (const std::string why = loadError("libibverbs.so.1"); !why.empty()) {
    findings->push_back({Verdict::Broken, "InfiniBand", why, "apt install libibverbs1 ibverbs-providers"});
  }
  for (const std::string& file : names(root + "/sys/class/infiniband_verbs")) {
    const std::string path = cat(root, "/dev/infiniband/", file);
    if (!file.starts_with("uverbs") || ::access(path.c_str(), R_OK | W_OK) == 0) continue;
    findings->push_back({Verdict::Broken, "InfiniBand", cat(path, ": ", std::strerror(errno)),
                         "docker run --device /dev/infiniband; else the permissions of udev (rdma-core)"});
  }
  for (const std::string& device : devices) addPorts(root, device, findings);
  findings->push_back(lockedMemory());
}

/// Whether PCI shows a display or 3D controller of NVIDIA.
bool hasGpu(const std::string& root) {
  const std::string folder = root + "/sys/bus/pci/devices/";
  for (const std::string& device : names(folder)) {
    if (line(folder + device + "/vendor") == "0x10de" && line(folder + device + "/class").starts_with("0x03"))
      return true;
  }
  return false;
}

void addGpus(const std::string& root, Findings* findings) {
  const bool driver = exists(root + "/proc/driver/nvidia/version"), control = exists(root + "/dev/nvidiactl");
  if (!hasGpu(root) && !driver && !control) {
    findings->push_back({Verdict::Note, "GPU", "none of NVIDIA; CUDA memory is refused", ""});
    return;
  }
  if (!driver) {
    findings->push_back({Verdict::Broken, "GPU", "there is one, and NVIDIA's kernel driver is not loaded",
                         "install the driver; then modprobe nvidia"});
    return;
  }
  if (!control || ::access((root + "/dev/nvidiactl").c_str(), R_OK | W_OK) != 0) {
    findings->push_back({Verdict::Broken, "GPU", cat(root, "/dev/nvidiactl: ", std::strerror(errno)),
                         "docker run --gpus all (NVIDIA's container toolkit); else nvidia-modprobe -c0 -u"});
  }
  if (const std::string why = loadError("libcuda.so.1"); !why.empty()) {
    findings->push_back(
        {Verdict::Broken, "GPU", why, "install the driver's libraries of the version of its kernel module"});
  } else {
    findings->push_back({Verdict::Fine, "GPU", line(root + "/proc/driver/nvidia/version"), ""});
  }
  if (!names(root + "/sys/class/infiniband").empty() && !exists(root + "/sys/module/nvidia_peermem")) {
    findings->push_back({Verdict::Note, "GPU and InfiniBand",
                         "nvidia_peermem is not loaded: adapters reach GPU memory by DMA-BUF alone, with open kernel "
                         "modules of the driver and Linux 5.12",
                         "modprobe nvidia_peermem, where neither is there"});
  }
}

}  // namespace

Findings checkDevices(const std::string& root) {
  Findings findings;
  addInfiniband(root, &findings);
  addGpus(root, &findings);
  return findings;
}

}  // namespace tutti::doctor
