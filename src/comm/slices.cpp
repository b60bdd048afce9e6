#include "src/comm/slices.hpp"

#include <algorithm>
#include <set>

#include "src/base/config.hpp"

namespace tutti {

// Over sockets every slice is a call on both sides and a wait, so larger ones pay until the slices of all ranks no
// longer share the cache; that comes at once where ranks share cores.
Result<size_t> chooseSliceBytes(const std::vector<PeerDescriptor>& descriptors, const CommSettings& settings) {
  constexpr size_t kSocketSliceBytes = 256 << 10;
  TUTTI_ASSIGN(const int64_t slotBytes, configInteger("TUTTI_SLOT_BYTES"));
  const auto slots = static_cast<size_t>(slotBytes) / kCacheLineBytes * kCacheLineBytes;
  if (configIsSet("TUTTI_SLOT_BYTES")) return slots;
  const bool sharedMemory = std::ranges::any_of(settings.table, [&](const TransportEntry* entry) {
    return entry->sharesMemory() && isAllowed(*entry, settings);
  });
  std::set<uint64_t> hosts;
  for (const PeerDescriptor& descriptor : descriptors) {
    if (oversubscribed(descriptors, descriptor.kernel)) return slots;
    if (!hosts.insert(descriptor.info.hostId).second && sharedMemory) return slots;
  }
  return kSocketSliceBytes;
}

SliceUse sliceUse(const Call& call) {
  if (!callReduces(call)) return SliceUse::Copied;
  return call.collective == Collective::Reduce ? SliceUse::SummedInChain : SliceUse::SummedInBlocks;
}

// A copy touches each byte once, so small slices gain nothing from caches.  Two bare processes took 640, 400, 355 and
// 340 us for 4 MiB over loopback by writes of 64 KiB, 256 KiB, 1 MiB and 4 MiB.  Sums gain less from caches than a
// receiver loses that reads while the system delivers to the same socket, above all where cores are far apart.  A
// chain has a slice under way at every rank, and gains nothing
// (perf/results/compare-tcp-untuned-2core-epyc.txt).
SocketSlices socketSlices(size_t sliceBytes, bool shareCores) {
  constexpr size_t kCopied = 1 << 20, kInBlocks = 1 << 20, kInBlocksOfSharedCores = 512 << 10;
  if (configIsSet("TUTTI_SLOT_BYTES")) return {sliceBytes, sliceBytes, sliceBytes};
  return {std::max(sliceBytes, kCopied), std::max(sliceBytes, shareCores ? kInBlocksOfSharedCores : kInBlocks),
          sliceBytes};
}

}  // namespace tutti
