// What messages and memory cost ranks on CUDA devices: figures beside the Calibration, which is of the host.
//
// Nothing is measured at init.  What a device is made of (DeviceFacts) its driver tells, what joins devices
// (DeviceLinks) the graph of the machine; what messages cost on the three ways of carrying out a plan are published
// figures, each with its source in device_costs.cpp.  All ranks make the same figures of the same cards.  Values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// How calls of CUDA ranks are carried out, as far as cost goes.
enum class DeviceExecutor : uint8_t {
  Blocks,   // blocks of kernels that wait for each other
  Streams,  // operations that the host enqueues: copies, kernels, writes of words and waits for words
  Proxy,    // a thread of the host, by pinned host memory and the host's links
};
inline constexpr size_t kNumDeviceExecutors = 3;
/// "cuda-blocks", "cuda-streams", "cuda-proxy".
const char* deviceExecutorName(DeviceExecutor way);
bool parseDeviceExecutor(std::string_view name, DeviceExecutor* out);

/// The largest message of a lane that goes as packets (kernels::kInlineBytes).
inline constexpr size_t kMostPacketBytes = 4096;

/// What the driver tells of a device.
struct DeviceFacts {
  int computeCapability = 0;  // times 10; 0: not told
  double memoryGBps = 0;      // of the memory's bus, reads and writes together; 0: not told
  bool operator==(const DeviceFacts&) const = default;
};
/// The least of both: who plans for several devices plans for the slowest.
DeviceFacts slower(const DeviceFacts& a, const DeviceFacts& b);

/// What joins the devices of a communicator.
struct DeviceLinks {
  std::vector<int> deviceOf;  // [rank], numbered from 0
  double portGBps = 0;        // out of the device that has least, and the same in; 0: there is one device, or not known
  double pairGBps = 0;        // between the two devices that have least; 0: the same
  bool nvlink = false;        // between all of them
  /// Where they are joined by PCIe: [rank] the socket that its device is on, and GB/s between sockets; empty and 0: all
  /// on one, or not known.
  std::vector<int> socketOf;
  double socketGBps = 0;
  int nDevices() const;
  int mostRanks() const;  // of one device
};

/// Work of the sender for one message, the way until it can be taken, work of the receiver.
struct DeviceMessage {
  double sendUs = 0, wayUs = 0, receiveUs = 0;
  double us() const { return sendUs + wayUs + receiveUs; }
};

/// Between ranks of one device, and between devices.
struct DeviceMessages {
  DeviceMessage near, far;
};

struct DeviceCosts {
  DeviceExecutor way = DeviceExecutor::Blocks;
  DeviceLinks links;
  double callUs = 0;       // of a call beside its messages
  double memoryGBps = 0;   // of copies on one device, reads and writes together, shared by all its ranks
  double blockGBps = 0;    // that a block copies; unused on other ways
  DeviceMessages packet;   // of up to kMostPacketBytes, by a block; unused on other ways
  DeviceMessages message;  // larger ones, through slots or lent
  double operationUs = 0;  // of a copy or reduction inside a rank beside its bytes
  /// The part of a call's cost that is what it costs alone; the rest is what it adds to a row of calls.
  double waitedFor = 1;
  double pinnedGBps = 0;  // between a device and pinned memory of its host; unused but by Proxy
  /// By Proxy: adapters read and write memory of all ranks' devices, so that messages between hosts are copied on the
  /// device, into slots and out of them, and do not pass through pinned memory.
  bool byAdapters = false;
  /// By Proxy: what messages inside a host cost by streams, where all its ranks' devices reach each other; null: they
  /// pass through pinned memory, too.
  std::shared_ptr<const DeviceCosts> insideHost{};

  /// "cuda-blocks, 4 ranks on one device", "cuda-blocks, 8 devices joined by 371 GB/s".
  std::string describe() const;
};

/// The figures for `way` on devices no slower than `facts`.
DeviceCosts deviceCosts(DeviceExecutor way, const DeviceFacts& facts, DeviceLinks links);

/// Lanes that blocks of one rank need to be as fast as its device's memory, or its link to others, lets them: all ranks
/// of the device busy at once, or this one alone.
int lanesForBandwidth(const DeviceCosts& costs, bool allBusy);

/// Lanes for messages of `chunkBytes` in all of them together: as many as make packets of them, which need no fences;
/// where there are not so many lanes (most), as many as the bandwidth needs.
int lanesForMessages(const DeviceCosts& costs, double chunkBytes, bool allBusy, int most);

/// Memory that slots may take, of one rank and of all ranks of a device.
inline constexpr size_t kMostEndBytes = size_t{256} << 20;
inline constexpr size_t kMostEndBytesOfDevice = size_t{1} << 30;
/// The same for slots of blocks, of which `sharers` ranks are on a device.  oneDevice: all of them; then few calls go
/// through slots, as one launch has all ranks' buffers.
size_t mostBlockEndBytes(bool oneDevice, size_t sharers);

/// The slice of a message, a power of two: so large that what a slice costs beside its bytes is a tenth of it, if the
/// memory for slots allows.  Blocks: for as many lanes as all busy ranks need.  Streams: for endpoints to all others.
size_t deviceSliceBytes(const DeviceCosts& costs, int nRanks, uint32_t slots);

/// A message between two ranks by itself.
double deviceMessageUs(const DeviceCosts& costs, bool sameDevice, size_t bytes, size_t sliceBytes);

}  // namespace tutti
