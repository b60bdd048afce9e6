// A CUDA driver for tests: devices, memory, streams and kernels played by this process's threads and memory.
//
// What it shares with a real one: the order of stream operations, what addresses mean in which process and context,
// which calls a capture forbids, and how calls fail.  What it cannot show: code generation, weak memory ordering,
// co-residency of blocks, speed.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "src/device/cuda/abi.hpp"

namespace tutti::fake {

using namespace tutti::cuda;

struct Capture;

#define TUTTI_FAKE_DECLARE(name, version, parameters) Error name parameters;
TUTTI_CUDA_FUNCTIONS(TUTTI_FAKE_DECLARE)
#undef TUTTI_FAKE_DECLARE

/// What a test asks for, from "devices=2;queues=1;delay=50;fail=cuMemAlloc:3:2;ipc=0;vmm=0;torn=1;slices=/tmp/lock" or
/// "topology=FILE".
struct Settings {
  int devices = 1;
  std::string topology;  // a file: devices and links are those in it
  int queues = 0;        // hardware queues that all streams of a device and priority share; 0: one for each stream
  int first = 0;         // what the first device is called: processes that see other devices give it other numbers
  std::string slices;    // a file: of the processes that name it, one at a time works on devices, by slices
  int delayUs = 0;       // stream operations begin up to this much later, at random
  bool ipc = true;       // whether memory can be opened by other processes by IPC handles
  bool vmm = true;       // whether devices have virtual memory management
  bool rdma = true;      // whether network adapters can reach pages of that which ask for it
  bool dmabuf = true;    // whether memory of devices can be exported by DMA-BUF
  bool flush = false;    // what adapters write is there when somebody flushes, and no sooner
  bool pools = true;     // whether memory can be allocated in the order of a stream
  bool torn = false;     // streams may read what others are writing, as they do when an abort has let them go
  bool sync = false;     // calls that may wait for all that the device has to do, such as allocations, do
  int stuckMs = 10'000;  // after how long without anything done these complain
  bool memops = true;    // whether streams can wait for and write words
  bool unified = true;   // whether devices have unified addressing
  int occupied = 0;      // blocks that a kernel of somebody else's, which spins, holds on every device
  std::string failName;  // the call that fails ...
  int failCall = 0;      // ... at this many calls from now on ...
  Error failWith = kErrorInvalidValue;
};

/// Devices and links as of a topology file; empty: as many as Settings::devices, all of which reach each other.
struct Topology {
  struct Device {
    std::string busId;
    int cpu = 0;
    std::vector<std::string> links;  // NVLink: bus ids of the devices or switches at the other end
  };
  std::vector<Device> devices;
  /// By NVLink, or below the same CPU.
  bool reaches(int device, int peer) const;
};
/// From a file in NCCL's format.
Topology readTopology(const std::string& path);

/// The one driver of the process; never destroyed.
struct Machine {
  std::mutex mutex;  // guards what follows
  Settings settings;
  Topology topology;
  std::map<std::string, int> calls;
  std::vector<std::pair<std::string, int>> journal;  // the calls in order; how often in a row
  std::vector<std::string> complaints;
  std::set<std::pair<int, int>> peerAccess;  // the first one's kernels may use the second one's memory
};
Machine& machine();

/// A mistake that a real driver would answer with memory corruption or undefined behaviour.
void complain(const std::string& text);

/// Adds something to the journal that is said of the call before it.
void note(const std::string& text);

/// At the start of every call: counts it, and gives the error to return if a test wants this one to fail.
Error enter(const char* name);
#define TUTTI_FAKE_ENTER(name) \
  if (const Error failed_ = enter(#name); failed_ != kSuccess) return failed_

inline constexpr int kMostDevices = 64;
bool isDevice(int ordinal);
/// The number of device 0 among all that processes see.
int firstDevice();
/// Whether a device may be made to use another one's memory.
bool reaches(int device, int peer);

// ---- Contexts

/// The current context of the calling thread, or null.
Context currentContext();
int deviceOf(Context context);
Context primaryContextOf(int device);
/// Whether somebody retains it.
bool isAlive(Context context);

// ---- Captures

/// For a potentially unsafe call: whether a capture forbids it to the calling thread.  Breaks those that do, and
/// complains.
bool captureForbids(const char* call);
/// For calls that encompass all streams of a device: breaks the captures on it; whether there are any.
bool breakCapturesOn(int device);

// ---- Memory

/// Complains unless all of [address, address + bytes) is memory that `device` may use.  Pageable host memory is none.
void checkRange(Address address, size_t bytes, int device, const char* what);
/// The same for a word that a stream waits for, which has to be the device's own, or of managed or pinned memory.
void checkOwnWord(Address address, int device);
bool isManaged(Address address);
/// For copies, which also take pageable memory: complains if it touches freed memory or leaves an allocation.
void checkCopyRange(Address address, size_t bytes, const char* what);
/// Allocations that are not freed, handles not released and addresses still reserved, as text; "" if none.
std::string memoryLeaks();
/// Of a device whose context goes: what it has there is lost, and complained of.
void loseMemoryOf(int device);

// ---- Slices of time

/// While it lives, this process has the devices, if processes are to have them one at a time.  Of one thread.
class Slice {
 public:
  Slice();
  ~Slice();
  /// Between pieces of work: lets others have the devices if the slice is over.
  void renew();
  Slice(const Slice&) = delete;
  Slice& operator=(const Slice&) = delete;
};
/// For work that waits for something: goes on in this process's next slice.  False, at once: there are no slices.
bool pauseSlice();

// ---- Streams

using Work = std::function<void()>;

/// In order, on a thread of its own.
class Queue {
 public:
  Queue();
  ~Queue();
  void push(Work work);

 private:
  /// The thread's own too, because the last owner of a queue may be work of its own.
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Work> work;
    bool ending = false;
  };
  static void run(const std::shared_ptr<State>& state);
  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::thread thread_;
};

/// The device of a stream as work may be enqueued on it; -1 if there is none.
int deviceOfStream(Stream stream);
/// The stream behind a handle (null: the device's default stream); null if there is none.
CUstream_st* streamOf(Stream stream);
/// Waits until all streams of a device have done what is enqueued.
void waitForDevice(int device);
/// For calls that may wait for all that the device has to do: waits for it, if a test has such calls wait.  Complains
/// and goes on when no stream of the device gets any further: what they wait for comes after the call.
void mayWaitForDevice(const char* call);
/// Enqueue, or record if the stream is capturing.  Checks that the stream belongs to the current context.
Error enqueue(Stream stream, Work work);
std::string streamLeaks();
/// Of a device whose context goes.
void loseStreamsOf(int device);

// ---- Kernels

inline constexpr int kMultiprocessors = 4;
inline constexpr int kBlocksPerMultiprocessor = 8;

/// While it lives, so many blocks are on the device.  Made by work of a stream: waits until there is room for all of
/// them.
class Room {
 public:
  Room(int device, int blocks);
  ~Room();
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

 private:
  int device_, blocks_;
};

/// A kernel's host build: runs as thread `me` of `n` on the arguments of a launch; of kernels that are launched
/// cooperatively, `me` blocks at once.
struct HostKernel {
  const char* name;
  size_t argumentBytes;
  void (*run)(const void* arguments, uint64_t me, uint64_t n);
  void (*check)(const void* arguments, int device);
};
const HostKernel* findKernel(const char* name);
const HostKernel* findLayerKernel(const char* name);  // of src/parallel/kernels

}  // namespace tutti::fake

struct CUctx_st {  // its place in a list is the number of its device
  int retained = 0;
};

struct CUgraph_st {
  std::vector<tutti::fake::Work> work;  // in the order of capture, which is one order that all dependencies allow
};
struct CUgraphExec_st {
  std::shared_ptr<CUgraph_st> graph;
};

namespace tutti::fake {

/// How far something has come that counts what it has to do.
struct Progress {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t asked = 0;  // guarded by mutex
  uint64_t done = 0;
};
/// By work of a stream: until `done` has come to `target`.
void await(Progress* progress, uint64_t target);

}  // namespace tutti::fake

struct CUstream_st {
  int device = 0;
  uint64_t number = 0;  // no other stream's, ever
  bool legacy = false;
  bool blocking = false;  // waits for the legacy default stream, and has it wait
  std::shared_ptr<tutti::fake::Queue> queue;
  std::shared_ptr<tutti::fake::Progress> progress = std::make_shared<tutti::fake::Progress>();
  std::shared_ptr<tutti::fake::Capture> capture;  // while it records; guarded by captureMutex()
};

struct CUevent_st {
  int device = 0;
  std::shared_ptr<tutti::fake::Capture> capture;  // recorded last in this one; guarded by captureMutex()
  std::map<const CUstream_st*, size_t> before;    // there
  tutti::fake::Progress progress;
};

struct CUmod_st {
  int device = 0;
};
struct CUfunc_st {
  int device = 0;
  const tutti::fake::HostKernel* kernel = nullptr;
};
