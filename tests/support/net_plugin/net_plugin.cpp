// A network plugin for tests, in NCCL's interface of version NET_VERSION, over TCP sockets of the loopback interface.
//
// It holds its caller to the rules: comms, memory and requests must be alive and belong together, at most 32 requests
// are under way on a comm, contexts end last.  What breaks one is an error with a sentence, and counts.  It is as
// unhelpful as it may be: comms take several calls to come up, every third request is null at first, and nothing moves
// but in test().  NET_PLUGIN_FAULT names something that goes wrong.
//
// With the CUDA driver of the tests (tests/fake_cuda) in the process its devices take memory of CUDA devices, by
// address and by DMA-BUF unless NET_PLUGIN_MEMORY says otherwise ("host", "cuda", "dmabuf", and "flush": every receive
// has to be flushed).  What it writes there waits for a flush where the driver's settings say so, and iflush takes
// time.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/support/adapter_cuda.hpp"
#include "transport/ncclnet/abi.hpp"

using namespace tutti::ncclnet;
using tutti::test::cuda;

namespace {

constexpr Code kSystemError = 2, kRemoteError = 6;
constexpr int kDevices = 3;  // the first is for GPUs alone
constexpr uint64_t kLiving = 0x6e65742d616c6976;

void beQuiet(int, unsigned long, const char*, int, const char*, ...) {}
Logger say = beQuiet;
std::atomic<int> complaints{0}, alive{0}, torn{0}, dmaBufs{0}, flushes{0};

bool fault(const char* name) {
  const char* wanted = std::getenv("NET_PLUGIN_FAULT");
  return wanted != nullptr && std::string(wanted) == name;
}
/// The kinds of memory that devices take, as their properties say.
int takes() {
  const char* said = std::getenv("NET_PLUGIN_MEMORY");
  const std::string kinds = said != nullptr ? said : "cuda,dmabuf";
  const auto has = [&](const char* kind) { return kinds.find(kind) != std::string::npos; };
  return kHostMemory | (has("cuda") ? kCudaMemory : 0) | (has("dmabuf") ? kByDmaBuf : 0);
}
bool alwaysFlushes() {
  const char* said = std::getenv("NET_PLUGIN_MEMORY");
  return said != nullptr && std::string(said).find("flush") != std::string::npos;
}

bool isOnDevice(const void* data) {
  return cuda().isDeviceMemory != nullptr && cuda().isDeviceMemory(reinterpret_cast<uint64_t>(data)) != 0;
}
/// Not memcpy(): the thread sanitizer must not see what adapters do.
__attribute__((no_sanitize("thread"))) void copyBytes(void* to, const void* from, size_t bytes) {
  auto* const dst = static_cast<volatile char*>(to);
  const auto* const src = static_cast<const volatile char*>(from);
  for (size_t i = 0; i < bytes; ++i) dst[i] = src[i];
}
void readDevice(std::byte* to, const void* from, size_t bytes) {
  cuda().adapterReads(reinterpret_cast<uint64_t>(from), bytes);
  copyBytes(to, from, bytes);
}
void writeDevice(void* to, const std::byte* from, size_t bytes) {
  const auto at = reinterpret_cast<uint64_t>(to);
  if (cuda().adapterWrites(at, reinterpret_cast<uint64_t>(from), bytes) == 0) copyBytes(to, from, bytes);
}

Code warn(Code code, const char* text) {
  say(2, 0, __FILE__, __LINE__, "%s", text);
  return code;
}
Code broken(const char* rule) {
  ++complaints;
  return warn(kInvalidUsage, rule);
}
#define RULE(holds) \
  if (!(holds)) return broken("the caller broke a rule: " #holds)

/// All objects that are handed out, so that those which are not can be told from them.
class Living {
 public:
  Living() {
    const std::lock_guard lock(mutex());
    all().insert(this);
    ++alive;
  }
  virtual ~Living() {
    const std::lock_guard lock(mutex());
    all().erase(this);
    --alive;
  }
  template <class T>
  static T* find(void* object) {
    const std::lock_guard lock(mutex());
    return all().contains(static_cast<Living*>(object)) ? dynamic_cast<T*>(static_cast<Living*>(object)) : nullptr;
  }

 private:
  static std::mutex& mutex() {
    static auto* const one = new std::mutex;
    return *one;
  }
  static std::set<Living*>& all() {
    static auto* const one = new std::set<Living*>;
    return *one;
  }
};

struct Context final : Living {
  std::atomic<int> comms{0};
};

struct Comm;
struct Request final : Living {
  explicit Request(Comm* owner) : comm(owner) {}
  Comm* const comm;
  std::byte* data = nullptr;
  uint64_t capacity = 0;
  uint64_t size = 0;                // goes before the data
  size_t moved = 0;                 // of both
  std::vector<std::byte> ofDevice;  // what is sent from memory of a device, or received for it
  void* onDevice = nullptr;         // that
};
struct Flush final : Living {
  explicit Flush(const void* at, size_t n) : data(at), bytes(n) {}
  const void* const data;
  const size_t bytes;
  int looks = 0;
};

struct Comm : Living {
  explicit Comm(int descriptor) : fd(descriptor) {}
  ~Comm() override {
    for (Request* request : requests) delete request;
    close(fd);
    if (context != nullptr) --context->comms;
  }
  void belongTo(Context* owner) {
    context = owner;
    if (owner != nullptr) ++owner->comms;
  }
  const int fd;
  Context* context = nullptr;
  std::deque<Request*> requests;
  int memory = 0, calls = 0;
};
struct ListenComm final : Comm {
  using Comm::Comm;
};
struct SendComm final : Comm {
  using Comm::Comm;
};
struct ReceiveComm final : Comm {
  using Comm::Comm;
};
struct Memory final : Living {
  Comm* comm = nullptr;
  std::byte* data = nullptr;
  size_t bytes = 0;
  bool holds(const Comm* user, const void* from, size_t n) const {
    const auto* at = static_cast<const std::byte*>(from);
    return comm == user && at >= data && n <= bytes && at + n <= data + bytes;
  }
};

/// What a handle holds; the caller keeps it from call to call.
struct Handle {
  uint64_t magic;
  sockaddr_in address;
  SendComm* begun;
};
static_assert(sizeof(Handle) <= kHandleBytes);

int newSocket() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int small = 64 << 10, on = 1;
  setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

Code init(Logger logger) {
  say = logger;
  return fault("init") ? warn(kSystemError, "the cable is broken") : kSuccess;
}

Code devices(int* n) {
  if (fault("devices")) return kSystemError;
  *n = fault("none") ? 0 : fault("gpu") ? 1 : fault("many") ? 2'000'000'000 : kDevices;
  return kSuccess;
}

template <class Properties>
Code getProperties(int device, Properties* into) {
  static char names[kDevices][8] = {"gpu0", "net0", "net1"};
  RULE(device >= 0 && device < kDevices);
  into->name = names[device];
  into->memory = device == 0 ? kCudaMemory : takes();
  if constexpr (requires { into->alwaysFlush; }) into->alwaysFlush = alwaysFlushes() ? 1 : 0;
  if constexpr (requires { into->mostBytes; }) into->mostBytes = fault("short") ? 1000 : 1 << 26;
  return kSuccess;
}

Code listen(Context* context, int device, void* handle, void** comm) {
  RULE(device == 1 || device == 2);
  if (fault("listen")) return warn(kSystemError, "no more ports");
  if (fault("long")) std::memset(handle, 0, kHandleBytes + 8);
  auto* made = new ListenComm(newSocket());
  made->belongTo(context);
  Handle mine{kLiving, {}, nullptr};
  mine.address.sin_family = AF_INET;
  mine.address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof mine.address;
  auto* address = reinterpret_cast<sockaddr*>(&mine.address);
  if (bind(made->fd, address, length) != 0 || ::listen(made->fd, 8) != 0 ||
      getsockname(made->fd, address, &length) != 0)
    return kSystemError;
  std::memcpy(handle, &mine, sizeof mine);
  *comm = made;
  return kSuccess;
}

Code connect(Context* context, int device, void* handle, void** comm, void** deviceHandle) {
  RULE(device == 1 || device == 2);
  RULE(deviceHandle != nullptr && *deviceHandle == nullptr);
  RULE(*comm == nullptr);
  if (fault("connect")) return warn(kRemoteError, "nobody answers");
  auto* const theirs = static_cast<Handle*>(handle);
  RULE(theirs->magic == kLiving);
  if (theirs->begun == nullptr) {
    theirs->begun = new SendComm(newSocket());
    --alive;  // nobody has it yet who could give it back
  }
  SendComm* const made = theirs->begun;
  const auto* address = reinterpret_cast<const sockaddr*>(&theirs->address);
  const bool up = ::connect(made->fd, address, sizeof theirs->address) == 0 || errno == EISCONN;
  if (!up && errno != EINPROGRESS && errno != EALREADY) return warn(kRemoteError, std::strerror(errno));
  if (!up || ++made->calls < 3) return kSuccess;
  made->belongTo(context);
  ++alive;
  *comm = made;
  return kSuccess;
}

Code accept(void* listenComm, void** comm, void** deviceHandle) {
  auto* const listens = Living::find<ListenComm>(listenComm);
  RULE(listens != nullptr);
  RULE(deviceHandle != nullptr && *deviceHandle == nullptr);
  RULE(*comm == nullptr);
  if (fault("accept")) return kSystemError;
  if (++listens->calls < 3) return kSuccess;
  const int fd = accept4(listens->fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return errno == EAGAIN ? kSuccess : kSystemError;
  auto* made = new ReceiveComm(fd);
  made->belongTo(listens->context);
  *comm = made;
  return kSuccess;
}

Code addMemory(Comm* of, void* data, size_t bytes, void** memory) {
  auto* made = new Memory;
  made->comm = of;
  made->data = static_cast<std::byte*>(data);
  made->bytes = bytes;
  ++of->memory;
  *memory = made;
  return kSuccess;
}

Code regMr(void* comm, void* data, size_t bytes, int kind, void** memory) {
  auto* const of = Living::find<Comm>(comm);
  RULE(of != nullptr && data != nullptr && bytes > 0);
  RULE(kind == kHostMemory || (kind == kCudaMemory && (takes() & kCudaMemory) != 0));
  RULE(isOnDevice(data) == (kind == kCudaMemory));
  if (fault("regMr") || (kind == kCudaMemory && fault("regMrOfDevice"))) return warn(kSystemError, "too much memory");
  return addMemory(of, data, bytes, memory);
}

Code regMrDmaBuf(void* comm, void* data, size_t bytes, int kind, uint64_t offset, int fd, void** memory) {
  auto* const of = Living::find<Comm>(comm);
  RULE(of != nullptr && data != nullptr && bytes > 0);
  RULE(kind == kCudaMemory && (takes() & kByDmaBuf) != 0);
  struct stat pages {};
  RULE(isOnDevice(data) && fstat(fd, &pages) == 0 && offset < 4096);
  if (fault("regMrOfDevice")) return warn(kSystemError, "too much memory");
  ++dmaBufs;
  return addMemory(of, data, bytes, memory);
}

Code deregMr(void* comm, void* memory) {
  auto* const known = Living::find<Memory>(memory);
  RULE(known != nullptr && Living::find<Comm>(comm) == known->comm);
  --known->comm->memory;
  delete known;
  return kSuccess;
}

/// Null requests where it pleases; they come later.
Code post(Comm* comm, void* data, uint64_t capacity, uint64_t size, void* memory, void** request) {
  auto* const known = Living::find<Memory>(memory);
  RULE(known != nullptr && known->holds(comm, data, capacity));
  RULE(comm->requests.size() < kMostRequests);
  *request = nullptr;
  if (++comm->calls % 3 == 0) return kSuccess;
  auto* made = new Request(comm);
  made->data = static_cast<std::byte*>(data);
  made->capacity = capacity;
  made->size = size;
  if (isOnDevice(data)) {
    made->onDevice = data;
    made->ofDevice.resize(capacity);
    made->data = made->ofDevice.data();
    if (size > 0) readDevice(made->data, data, size);
  }
  comm->requests.push_back(made);
  *request = made;
  return kSuccess;
}

Code isend(void* comm, void* data, size_t bytes, void* memory, void** request) {
  auto* const to = Living::find<SendComm>(comm);
  RULE(to != nullptr);
  if (fault("isend")) return warn(kSystemError, "the cable was pulled");
  return post(to, data, bytes, bytes, memory, request);
}

template <class Size>
Code irecv(void* comm, int n, void** data, Size* bytes, int* tags, void** memory, void** request) {
  auto* const from = Living::find<ReceiveComm>(comm);
  RULE(from != nullptr);
  RULE(n == 1 && bytes[0] > 0 && tags[0] == 0);
  return post(from, data[0], static_cast<uint64_t>(bytes[0]), 0, memory[0], request);
}

/// Moves bytes of [at, at + n), of which `moved` have been before; whether all have.
bool move(Request* request, bool sends, void* at, size_t n, size_t before, Code* code) {
  while (request->moved < before + n) {
    auto* const from = static_cast<std::byte*>(at) + (request->moved - before);
    const size_t left = before + n - request->moved;
    const ssize_t one =
        sends ? ::send(request->comm->fd, from, left, MSG_NOSIGNAL) : ::recv(request->comm->fd, from, left, 0);
    if (one < 0 && errno == EAGAIN) return false;
    if (one <= 0) *code = warn(kRemoteError, one == 0 ? "the peer has closed its socket" : std::strerror(errno));
    if (one <= 0) return false;
    request->moved += static_cast<size_t>(one);
  }
  return true;
}

/// Done at the third look, and no sooner: a caller that does not wait finds old bytes.
Code testFlush(Flush* flush, int* done) {
  *done = ++flush->looks >= 3 ? 1 : 0;
  if (*done == 0) return kSuccess;
  cuda().adapterReads(reinterpret_cast<uint64_t>(flush->data), flush->bytes);
  delete flush;
  return kSuccess;
}

Code iflush(void* comm, int n, void** data, int* bytes, void** memory, void** request) {
  auto* const of = Living::find<ReceiveComm>(comm);
  RULE(of != nullptr && n == 1 && bytes[0] > 0);
  auto* const known = Living::find<Memory>(memory[0]);
  RULE(known != nullptr && known->holds(of, data[0], static_cast<size_t>(bytes[0])) && isOnDevice(data[0]));
  if (fault("iflush")) return warn(kSystemError, "nothing answers");
  ++flushes;
  *request = new Flush(data[0], static_cast<size_t>(bytes[0]));
  return kSuccess;
}

Code test(void* request, int* done, int* bytes) {
  if (auto* const flush = Living::find<Flush>(request); flush != nullptr) return testFlush(flush, done);
  auto* const known = Living::find<Request>(request);
  RULE(known != nullptr && Living::find<Comm>(known->comm) != nullptr);
  Comm* const comm = known->comm;
  const bool sends = dynamic_cast<SendComm*>(comm) != nullptr;
  if (sends && fault("test")) return kSystemError;
  *done = 0;
  if (comm->requests.front() != known) return kSuccess;
  Code code = kSuccess;
  if (!move(known, sends, &known->size, sizeof known->size, 0, &code)) return code;
  if (known->size > known->capacity) return warn(kRemoteError, "a message is longer than its receive");
  if (!move(known, sends, known->data, known->size, sizeof known->size, &code)) return code;
  if (!sends && known->onDevice != nullptr) writeDevice(known->onDevice, known->data, known->size);
  *done = 1;
  *bytes = static_cast<int>(known->size);
  comm->requests.pop_front();
  delete known;
  return kSuccess;
}

template <class Kind>
Code closeComm(void* comm) {
  auto* const known = Living::find<Kind>(comm);
  RULE(known != nullptr && known->memory == 0);
  if (!known->requests.empty()) ++torn, warn(kSuccess, "a comm is closed with requests under way");
  delete known;
  return kSuccess;
}

#if NET_VERSION >= 11
Code init11(void** context, uint64_t, CommConfig* config, Logger logger, Profiler profiler) {
  RULE(config != nullptr && config->trafficClass == -1 && profiler != nullptr);
  if (const Code code = init(logger); code != kSuccess) return code;
  *context = new Context;
  return kSuccess;
}
Code listen11(void* context, int device, void* handle, void** comm) {
  auto* const known = Living::find<Context>(context);
  RULE(known != nullptr);
  return listen(known, device, handle, comm);
}
Code connect11(void* context, int device, void* handle, void** comm, void** deviceHandle) {
  auto* const known = Living::find<Context>(context);
  RULE(known != nullptr);
  return connect(known, device, handle, comm, deviceHandle);
}
Code finalize(void* context) {
  auto* const known = Living::find<Context>(context);
  RULE(known != nullptr && known->comms == 0);
  delete known;
  return kSuccess;
}
#else
Code initOnce(Logger logger) {
  static std::atomic<int> calls{0};
  say = logger;
  RULE(++calls == 1);
  return init(logger);
}
Code listen8(int device, void* handle, void** comm) { return listen(nullptr, device, handle, comm); }
#endif
#if NET_VERSION == 10
Code init10(Logger logger, Profiler profiler) { return profiler != nullptr ? initOnce(logger) : kInvalidUsage; }
Code connect10(int device, CommConfig* config, void* handle, void** comm, void** deviceHandle) {
  RULE(config != nullptr && config->trafficClass == -1);
  return connect(nullptr, device, handle, comm, deviceHandle);
}
#elif NET_VERSION < 10
Code connect8(int device, void* handle, void** comm, void** deviceHandle) {
  return connect(nullptr, device, handle, comm, deviceHandle);
}
#endif
#if NET_VERSION >= 10
Code isend10(void* comm, void* data, size_t bytes, int tag, void* memory, void* event, void** request) {
  RULE(tag == 0 && event == nullptr);
  return isend(comm, data, bytes, memory, request);
}
Code irecv10(void* comm, int n, void** data, size_t* bytes, int* tags, void** memory, void** events, void** request) {
  RULE(events != nullptr && events[0] == nullptr);
  return irecv(comm, n, data, bytes, tags, memory, request);
}
#elif NET_VERSION == 9
Code isend9(void* comm, void* data, size_t bytes, int tag, void* memory, void** request) {
  RULE(tag == 0);
  return isend(comm, data, bytes, memory, request);
}
#else
Code isend8(void* comm, void* data, int bytes, int tag, void* memory, void** request) {
  RULE(tag == 0 && bytes >= 0);
  return isend(comm, data, static_cast<size_t>(bytes), memory, request);
}
#endif

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
using Types = JOIN(Types, NET_VERSION);

constexpr Table<Types> kTable = {
    .name = "Sockets for tests",
#if NET_VERSION >= 11
    .init = init11,
#elif NET_VERSION == 10
    .init = init10,
#else
    .init = initOnce,
#endif
    .devices = devices,
    .getProperties = getProperties<Types::Properties>,
#if NET_VERSION >= 11
    .listen = listen11,
    .connect = connect11,
#elif NET_VERSION == 10
    .listen = listen8,
    .connect = connect10,
#else
    .listen = listen8,
    .connect = connect8,
#endif
    .accept = accept,
    .regMr = regMr,
    .regMrDmaBuf = regMrDmaBuf,
    .deregMr = deregMr,
#if NET_VERSION >= 10
    .isend = isend10,
    .irecv = irecv10,
#elif NET_VERSION == 9
    .isend = isend9,
    .irecv = irecv<size_t>,
#else
    .isend = isend8,
    .irecv = irecv<int>,
#endif
    .iflush = iflush,
    .test = test,
    .closeSend = closeComm<SendComm>,
    .closeRecv = closeComm<ReceiveComm>,
    .closeListen = closeComm<ListenComm>,
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
    .makeVirtualDevice = nullptr,
#if NET_VERSION >= 11
    .finalize = finalize,
#else
    .finalize = nullptr,
#endif
    .setNetAttr = nullptr,
};

}  // namespace

extern "C" {
__attribute__((visibility("default"))) extern const Table<Types> JOIN(ncclNetPlugin_v, NET_VERSION);
const Table<Types> JOIN(ncclNetPlugin_v, NET_VERSION) = kTable;
/// Objects that have not been given back.
__attribute__((visibility("default"))) int netPluginAlive() { return alive; }
/// Comms that were closed with requests under way.
__attribute__((visibility("default"))) int netPluginTorn() { return torn; }
/// Pieces of memory that were registered by DMA-BUF, and flushes, ever.
__attribute__((visibility("default"))) int netPluginDmaBufs() { return dmaBufs; }
__attribute__((visibility("default"))) int netPluginFlushes() { return flushes; }
/// Rules that have been broken.
__attribute__((visibility("default"))) int netPluginComplaints() { return complaints; }
}
