// libnvidia-ml.so.1 and libcuda.so.1 for machines without NVIDIA's: what a test wrote into FAKE_NVIDIA, statements
// between ';' as they are when the library is started.
//
//   gpu BUS SM MIG PARTS       MIG: -1 unknown to this GPU, 0 off, 1 on
//   link GPU NUMBER TYPE BUS GENERATION    TYPE: 0 GPU, 1 CPU, 2 switch, 255 unknown
//   cuda GPU                   is CUDA's next device
//   fail FUNCTION CODE         of every call of the function
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#define FAKE extern "C" __attribute__((visibility("default")))

namespace {

struct FakeLink {
  unsigned number, generation;
  int type;
  std::string bus;
};

struct Gpu {
  std::string bus;
  int sm = 0, mig = -1;
  unsigned parts = 0;
  std::vector<FakeLink> links;
};

std::vector<Gpu> gpus;
std::vector<int> cudaDevices;
std::map<std::string, int> failures;
int started = 0;

void read() {
  gpus.clear();
  cudaDevices.clear();
  failures.clear();
  const char* given = std::getenv("FAKE_NVIDIA");
  std::istringstream all(given != nullptr ? given : "");
  for (std::string statement; std::getline(all, statement, ';');) {
    std::istringstream words(statement);
    std::string what, text;
    size_t gpu = 0;
    FakeLink link;
    words >> what;
    if (what == "gpu") {
      gpus.emplace_back();
      words >> gpus.back().bus >> gpus.back().sm >> gpus.back().mig >> gpus.back().parts;
    } else if (what == "link" && words >> gpu >> link.number >> link.type >> link.bus >> link.generation) {
      gpus.at(gpu).links.push_back(link);
    } else if (what == "cuda" && words >> gpu) {
      cudaDevices.push_back(static_cast<int>(gpu));
    } else if (what == "fail" && words >> text) {
      words >> failures[text];
    }
  }
}

int failure(const char* function) {
  if (started == 0) return 1;  // not initialized
  const auto found = failures.find(function);
  return found != failures.end() ? found->second : 0;
}

struct PciPlace {
  char busIdLegacy[16];
  unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
  char busId[32];
};

void fill(PciPlace* place, const std::string& text) {
  std::memset(place, 0, sizeof *place);
  (void)std::sscanf(text.c_str(), "%x:%x:%x", &place->domain, &place->bus, &place->device);
  place->pciDeviceId = 0x233010deU;
}

const FakeLink* find(Gpu* gpu, unsigned number) {
  for (const FakeLink& link : gpu->links) {
    if (link.number == number) return &link;
  }
  return nullptr;
}

}  // namespace

#define FAIL_AS_TOLD \
  if (const int code = failure(__func__); code != 0) return code

FAKE int nvmlInit_v2() {
  read();
  ++started;
  if (const int code = failure(__func__); code != 0) return --started, code;
  return 0;
}
FAKE int nvmlShutdown() { return --started, 0; }
FAKE const char* nvmlErrorString(int code) { return code == 15 ? "GPU is lost" : "some error"; }

FAKE int nvmlDeviceGetCount_v2(unsigned* count) {
  FAIL_AS_TOLD;
  *count = static_cast<unsigned>(gpus.size());
  return 0;
}

FAKE int nvmlDeviceGetHandleByIndex_v2(unsigned number, Gpu** gpu) {
  FAIL_AS_TOLD;
  *gpu = &gpus.at(number);
  return 0;
}

FAKE int nvmlDeviceGetPciInfo_v3(Gpu* gpu, PciPlace* place) {
  FAIL_AS_TOLD;
  fill(place, gpu->bus);
  return 0;
}

FAKE int nvmlDeviceGetUUID(Gpu* gpu, char* text, unsigned bytes) {
  FAIL_AS_TOLD;
  std::snprintf(text, bytes, "GPU-uuid-of-%s", gpu->bus.c_str());
  return 0;
}

FAKE int nvmlDeviceGetCudaComputeCapability(Gpu* gpu, int* major, int* minor) {
  FAIL_AS_TOLD;
  *major = gpu->sm / 10;
  *minor = gpu->sm % 10;
  return 0;
}

FAKE int nvmlDeviceGetMigMode(Gpu* gpu, unsigned* now, unsigned* pending) {
  FAIL_AS_TOLD;
  if (gpu->mig < 0) return 3;  // not supported
  *now = *pending = static_cast<unsigned>(gpu->mig);
  return 0;
}

FAKE int nvmlDeviceGetMaxMigDeviceCount(Gpu*, unsigned* count) {
  FAIL_AS_TOLD;
  *count = 7;
  return 0;
}

FAKE int nvmlDeviceGetMigDeviceHandleByIndex(Gpu* gpu, unsigned number, Gpu** part) {
  FAIL_AS_TOLD;
  if (number % 2 == 1 || number / 2 >= gpu->parts) return 6;  // not found: numbers have holes
  *part = gpu;
  return 0;
}

FAKE int nvmlDeviceGetNvLinkState(Gpu* gpu, unsigned number, unsigned* on) {
  FAIL_AS_TOLD;
  if (gpu->links.empty()) return 3;
  *on = find(gpu, number) != nullptr ? 1 : 0;
  return number < 18 ? 0 : 2;
}

FAKE int nvmlDeviceGetNvLinkVersion(Gpu* gpu, unsigned number, unsigned* version) {
  FAIL_AS_TOLD;
  *version = find(gpu, number)->generation;
  return 0;
}

FAKE int nvmlDeviceGetNvLinkRemoteDeviceType(Gpu* gpu, unsigned number, int* type) {
  FAIL_AS_TOLD;
  *type = find(gpu, number)->type;
  return 0;
}

FAKE int nvmlDeviceGetNvLinkRemotePciInfo_v2(Gpu* gpu, unsigned number, PciPlace* place) {
  FAIL_AS_TOLD;
  fill(place, find(gpu, number)->bus);
  return 0;
}

FAKE int cuInit(unsigned) {
  read();
  ++started;
  FAIL_AS_TOLD;
  return cudaDevices.empty() ? 100 : 0;
}

FAKE int cuDeviceGetCount(int* count) {
  FAIL_AS_TOLD;
  *count = static_cast<int>(cudaDevices.size());
  return 0;
}

FAKE int cuDeviceGet(int* device, int number) {
  FAIL_AS_TOLD;
  *device = 100 + number;
  return 0;
}

FAKE int cuDeviceGetPCIBusId(char* text, int bytes, int device) {
  FAIL_AS_TOLD;
  const Gpu& gpu = gpus.at(static_cast<size_t>(cudaDevices.at(static_cast<size_t>(device - 100))));
  std::snprintf(text, static_cast<size_t>(bytes), "%s", gpu.bus.c_str());
  return 0;
}

FAKE int cuDeviceGetAttribute(int* value, int attribute, int device) {
  FAIL_AS_TOLD;
  const Gpu& gpu = gpus.at(static_cast<size_t>(cudaDevices.at(static_cast<size_t>(device - 100))));
  *value = attribute == 75 ? gpu.sm / 10 : attribute == 76 ? gpu.sm % 10 : attribute == 16 ? 132 : -1;
  return 0;
}

FAKE int cuDeviceTotalMem_v2(size_t* bytes, int) {
  FAIL_AS_TOLD;
  *bytes = size_t{80} << 30;
  return 0;
}
