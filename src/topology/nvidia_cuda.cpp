#include <dlfcn.h>

#include "src/topology/nvidia.hpp"

namespace tutti::topology {
namespace {

// The CUDA driver's C interface, as its reference manual documents it (docs.nvidia.com/cuda/cuda-driver-api).
constexpr int kCudaSuccess = 0, kCudaNoDevice = 100;
enum Attribute : int { Multiprocessors = 16, CapabilityMajor = 75, CapabilityMinor = 76 };

struct Cuda {
  int (*init)(unsigned) = nullptr;
  int (*count)(int*) = nullptr;
  int (*device)(int*, int) = nullptr;
  int (*busId)(char*, int, int) = nullptr;
  int (*attribute)(int*, int, int) = nullptr;
  int (*memory)(size_t*, int) = nullptr;

  /// "" or why it cannot be used.
  std::string load(const char* library) {
    void* opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (opened == nullptr) return cat("cannot be loaded (", dlerror(), ")");
    std::string missing;
    const auto find = [&](auto* function, const char* name) {
      *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(opened, name));
      if (*function == nullptr && missing.empty()) missing = cat("has no ", name);
    };
    find(&init, "cuInit");
    find(&count, "cuDeviceGetCount");
    find(&device, "cuDeviceGet");
    find(&busId, "cuDeviceGetPCIBusId");
    find(&attribute, "cuDeviceGetAttribute");
    find(&memory, "cuDeviceTotalMem_v2");
    return missing;
  }
};

void addCudaDevice(Graph& g, const Cuda& cuda, int number) {
  int device = 0;
  char busId[64] = "";
  const int code = cuda.device(&device, number);
  if (code != kCudaSuccess || cuda.busId(busId, sizeof busId, device) != kCudaSuccess) {
    g.note(cat("CUDA device ", number, ": the driver does not tell its place on PCI"));
    return;
  }
  busId[sizeof busId - 1] = '\0';
  const int node = g.byBusId(busId, g.all(NodeKind::Host).front());
  if (node < 0 || g.nodes[static_cast<size_t>(node)].kind != NodeKind::Gpu) {
    g.note(cat("CUDA device ", number, " (", canonicalBusId(busId), ") is not among the GPUs that the system shows"));
    return;
  }
  Node& n = g.nodes[static_cast<size_t>(node)];
  n.index = number;
  int major = 0, minor = 0, multiprocessors = 0;
  size_t bytes = 0;
  if (cuda.attribute(&major, CapabilityMajor, device) == kCudaSuccess &&
      cuda.attribute(&minor, CapabilityMinor, device) == kCudaSuccess) {
    n.gpu.sm = major * 10 + minor;
  }
  if (cuda.attribute(&multiprocessors, Multiprocessors, device) == kCudaSuccess)
    n.gpu.multiprocessors = multiprocessors;
  if (cuda.memory(&bytes, device) == kCudaSuccess) n.memoryBytes = bytes;
}

}  // namespace

void addByCuda(Graph& graph, const char* library) {
  const auto without = [&](const std::string& why) {
    if (showsNvidia(graph)) graph.note(cat("CUDA's numbers of the GPUs are not known: ", library, " ", why));
  };
  Cuda cuda;
  if (const std::string why = cuda.load(library); !why.empty()) return without(why);
  int count = 0, code = cuda.init(0);
  if (code == kCudaSuccess) code = cuda.count(&count);
  if (code == kCudaNoDevice) return without("shows this process no device");
  if (code != kCudaSuccess) return without(cat("does not start: error ", code));
  for (int i = 0; i < count; ++i) addCudaDevice(graph, cuda, i);
}

}  // namespace tutti::topology
