// The thread team and the memory model of walk_body.hpp on a GPU; tests/support/host_walk.hpp has those of the host.
//
// Memory models.  What one rank's threads write becomes another's to read in two ways: by a word stored with release
// after a barrier of the block and loaded with acquire before one (system scope: the other block may be on another
// device), or by packets that hold 4 bytes of payload and a flag, which one access of 8 bytes writes and reads.
#pragma once

#include "src/exec/kernels/team.hpp"
#include "src/exec/kernels/walk_program.hpp"

namespace tutti::kernels {

/// 8 bytes of payload as two packets; each is the payload's 4 bytes with the flag above them.
struct Line {
  uint64_t low;
  uint64_t high;
};

#ifdef __CUDACC__

/// The threads of a block, of which there are always as many: so their strides are known when they are compiled, and
/// several accesses take one register for their addresses.
struct BlockTeam {
  TUTTI_HD uint32_t index() const { return threadIdx.x; }
  static constexpr TUTTI_HD uint32_t size() { return kWalkThreads; }
  TUTTI_HD void sync() const { __syncthreads(); }
  /// A barrier; whether all threads say so.
  TUTTI_HD bool all(bool mine) const { return __syncthreads_and(mine) != 0; }
};

struct GpuMemory {
  static TUTTI_HD uint64_t acquire(const uint64_t* word) {
    uint64_t value;
    asm volatile("ld.acquire.sys.b64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
  }
  static TUTTI_HD void release(uint64_t* word, uint64_t value) {
    asm volatile("st.release.sys.b64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
  }
  /// Two accesses of 8 bytes by the letter of the memory model, one on the wire.
  static TUTTI_HD Line loadLine(const Line* from) {
    Line line;
    asm volatile("ld.volatile.v2.b64 {%0, %1}, [%2];" : "=l"(line.low), "=l"(line.high) : "l"(from) : "memory");
    return line;
  }
  static TUTTI_HD void storeLine(Line* to, const Line& line) {
    asm volatile("st.volatile.v2.b64 [%0], {%1, %2};" ::"l"(to), "l"(line.low), "l"(line.high) : "memory");
  }
  static TUTTI_HD uint64_t loadPacket(const uint64_t* from) {
    uint64_t packet;
    asm volatile("ld.volatile.b64 %0, [%1];" : "=l"(packet) : "l"(from) : "memory");
    return packet;
  }
  static TUTTI_HD void storePacket(uint64_t* to, uint64_t packet) {
    asm volatile("st.volatile.b64 [%0], %1;" ::"l"(to), "l"(packet) : "memory");
  }
  static TUTTI_HD uint32_t relaxed(const uint32_t* word) {
    uint32_t value;
    asm volatile("ld.relaxed.sys.b32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
  }
  static TUTTI_HD void tell(uint32_t* word, uint32_t value) {
    asm volatile("st.relaxed.sys.b32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
  }
};

/// Looks at the abort word now and then: it lies in host memory, so a look costs a microsecond or two.
class GpuPatience {
 public:
  TUTTI_HD explicit GpuPatience(const uint32_t* abort) : abort_(abort), next_(clock64() + kClocks) {}
  TUTTI_HD bool over() {
    if (clock64() < next_) return false;
    next_ = clock64() + kClocks;
    return GpuMemory::relaxed(abort_) != 0;
  }

 private:
  static constexpr long long kClocks = 40'000;  // some 20 microseconds
  const uint32_t* abort_;
  long long next_;
};

#endif

}  // namespace tutti::kernels
