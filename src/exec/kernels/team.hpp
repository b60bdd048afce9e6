// What differs between a GPU and the host for kernel source that both compile: who takes part, and how memory is read.
//
// A kernel is a template over a Team (index() of size() threads, which stride over the elements).  On a GPU that is the
// whole grid; on the host one thread may play all of them, or several one each, which is how tests run the same text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define TUTTI_HD __device__ __forceinline__
#define TUTTI_UNROLL _Pragma("unroll")
#define TUTTI_KEEP_LOOP _Pragma("unroll 1")
#else
#define TUTTI_HD inline
#define TUTTI_UNROLL
#define TUTTI_KEEP_LOOP
#endif

namespace tutti::kernels {

/// A number that shows in the type: of the bytes that one access moves.
inline constexpr size_t kPackBytes = 16;

struct alignas(kPackBytes) Pack {
  uint32_t words[kPackBytes / 4];
};

/// Buffers are in no memory of the block's or the thread's: accesses need not ask at run time which they are.
TUTTI_HD void assumeGlobal([[maybe_unused]] const void* address) {
#ifdef __CUDA_ARCH__
  __builtin_assume(__isGlobal(address));
#endif
}

/// At an address that is a multiple of kPackBytes.
TUTTI_HD Pack loadPack(const unsigned char* from) {
  assumeGlobal(from);
#ifdef __CUDA_ARCH__
  const uint4 v = *reinterpret_cast<const uint4*>(from);
  return {{v.x, v.y, v.z, v.w}};
#else
  Pack pack;
  std::memcpy(&pack, from, sizeof pack);
  return pack;
#endif
}

TUTTI_HD void storePack(unsigned char* to, const Pack& pack) {
  assumeGlobal(to);
#ifdef __CUDA_ARCH__
  *reinterpret_cast<uint4*>(to) = make_uint4(pack.words[0], pack.words[1], pack.words[2], pack.words[3]);
#else
  std::memcpy(to, &pack, sizeof pack);
#endif
}

/// One element at any address: byte by byte where it is not aligned.
template <class T>
TUTTI_HD T loadElement(const unsigned char* from) {
  T value;
#ifdef __CUDA_ARCH__
  if (reinterpret_cast<uintptr_t>(from) % sizeof(T) == 0) return *reinterpret_cast<const T*>(from);
#endif
  memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
TUTTI_HD void storeElement(unsigned char* to, T value) {
#ifdef __CUDA_ARCH__
  if (reinterpret_cast<uintptr_t>(to) % sizeof(T) == 0) {
    *reinterpret_cast<T*>(to) = value;
    return;
  }
#endif
  memcpy(to, &value, sizeof value);
}

#ifdef __CUDACC__
/// All threads of a one-dimensional grid.
struct Grid {
  TUTTI_HD uint64_t index() const { return uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
  TUTTI_HD uint64_t size() const { return uint64_t{gridDim.x} * blockDim.x; }
};
#endif

/// Thread `me` of `n` on the host.
struct HostTeam {
  uint64_t me = 0;
  uint64_t n = 1;
  uint64_t index() const { return me; }
  uint64_t size() const { return n; }
};

}  // namespace tutti::kernels
