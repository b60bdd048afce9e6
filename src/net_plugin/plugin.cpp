// What libnccl-net-tutti.so exports: the tables of NCCL's interface to network plugins, versions 8 to 12.
#include "transport/ncclnet/abi.hpp"

#include <atomic>
#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "src/base/log.hpp"
#include "src/base/plugin.hpp"
#include "src/net_plugin/receive_comm.hpp"
#include "src/net_plugin/send_comm.hpp"

namespace tutti::net_plugin {
namespace {

using ncclnet::Code;
using ncclnet::CommConfig;
using ncclnet::kHostMemory;
using ncclnet::kSuccess;
using ncclnet::Logger;
using ncclnet::Profiler;

constexpr unsigned long kNetwork = 16;  // NCCL_NET
constexpr int kMostComms = 1 << 16;
constexpr size_t kMostMessageBytes = size_t{1} << 31;

std::atomic<Logger> logger{nullptr};

void say(int level, const std::string& text) {
  if (const Logger log = logger.load(std::memory_order_acquire); log != nullptr)
    log(level, kNetwork, __FILE__, __LINE__, "NET/Tutti : %s", text.c_str());
}

/// Tutti's codes are NCCL's.
Code fail(const Status& why) {
  say(kPluginWarns, why.text());
  return static_cast<Code>(why.code());
}
template <class T>
Code fail(const Result<T>& why) {
  return fail(why.status());
}

Code failed(Comm& comm) {
  if (!comm.said()) say(kPluginWarns, comm.failure().text());
  return static_cast<Code>(comm.failure().code());
}

struct Listening {
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Link> link;  // that is coming up
};
/// A connect() that is under way: a dial, then a link.
struct Connecting {
  Handle handle;
  std::unique_ptr<Dial> dial;
  std::unique_ptr<Link> link;
};
struct RegisteredMemory {
  std::unique_ptr<MemoryRegistration> registration;
};

/// By the number that connect() leaves in the handle.
struct Dials {
  std::mutex mutex;
  uint64_t last = 0;
  std::map<uint64_t, std::unique_ptr<Connecting>> all;

  static Dials& instance() {
    static auto* const dials = new Dials;
    return *dials;
  }
  std::unique_ptr<Connecting> take(uint64_t number) {
    const std::lock_guard lock(mutex);
    const auto found = all.find(number);
    if (found == all.end()) return nullptr;
    std::unique_ptr<Connecting> one = std::move(found->second);
    all.erase(found);
    return one;
  }
  uint64_t keep(std::unique_ptr<Connecting> one) {
    const std::lock_guard lock(mutex);
    all[++last] = std::move(one);
    return last;
  }
};

std::span<std::byte, kHandleBytes> asHandle(void* handle) {
  return std::span<std::byte, kHandleBytes>(static_cast<std::byte*>(handle), kHandleBytes);
}

Code begin(Logger log) {
  logger.store(log, std::memory_order_release);
  const Result<Network> network = Network::find();
  if (!network.ok()) return fail(network);
  say(kPluginInforms, cat("device ", network->name, ", ", network->mbitPerSecond, " Mbit/s"));
  return kSuccess;
}

Code devices(int* n) {
  *n = Network::find().ok() ? 1 : 0;
  return kSuccess;
}

/// As the interface has it, though nobody writes to names.
char* lasting(const std::string& text) { return text.empty() ? nullptr : const_cast<char*>(keptText(text)); }

template <class Properties>
Code getProperties(int device, Properties* p) {
  if (device != 0)
    return fail(invalidArgument(ErrorCode::NetPluginArgument, "there is no device ", device, "; there is device 0"));
  const Result<Network> network = Network::find();
  if (!network.ok()) return fail(network);
  *p = Properties{};
  p->name = lasting(network->name);
  p->pciPath = lasting(network->pciPath);
  p->guid = network->guid;
  p->memory = kHostMemory;
  p->mbitPerSecond = network->mbitPerSecond;
  p->port = 1;
  p->mostComms = kMostComms;
  p->mostGrouped = static_cast<int>(kMostGrouped);
  if constexpr (requires { p->parts; }) {
    p->parts = 1;
    p->mostBytes = kMostMessageBytes;
    p->mostCollectiveBytes = kMostMessageBytes;
  }
  return kSuccess;
}

// Versions 9 and 10 end before the last of these fields, version 11 before the last two: the table's version says how
// much there is.
template <class Properties, bool kHasMulti, bool kHasRail>
Code getNewProperties(int device, Properties* into) {
  Properties all;
  const Code code = getProperties(device, &all);
  if (code != kSuccess) return code;
  all.mostInMultiRequest = 1;
  all.rail = all.plane = -1;
  const size_t bytes = kHasRail    ? sizeof all
                       : kHasMulti ? offsetof(Properties, rail)
                                   : offsetof(Properties, mostInMultiRequest);
  std::memcpy(into, &all, bytes);
  return kSuccess;
}

Code listenOn(int device, void* handle, void** comm) {
  *comm = nullptr;
  if (device != 0)
    return fail(invalidArgument(ErrorCode::NetPluginArgument, "there is no device ", device, "; there is device 0"));
  const Result<Network> network = Network::find();
  if (!network.ok()) return fail(network);
  const Result<Handle> offer = network->offer();
  if (!offer.ok()) return fail(offer);
  Result<std::unique_ptr<Listener>> listener = Listener::begin(*offer);
  if (!listener.ok()) return fail(listener);
  encodeHandle((*listener)->handle(), asHandle(handle));
  *comm = new Listening{std::move(*listener), nullptr};
  return kSuccess;
}

/// The link, once it is up; null: not yet.
Result<std::unique_ptr<Link>> goOn(Connecting* one) {
  if (one->link == nullptr) {
    TUTTI_ASSIGN(std::optional<Sockets> sockets, one->dial->poll());
    if (!sockets) return std::unique_ptr<Link>();
    TUTTI_ASSIGN(one->link, Link::begin(one->handle, std::move(*sockets)));
  }
  TUTTI_ASSIGN(const bool up, one->link->up());
  return up ? std::move(one->link) : nullptr;
}

Result<std::unique_ptr<Connecting>> dial(std::span<std::byte, kHandleBytes> bytes) {
  auto one = std::make_unique<Connecting>();
  TUTTI_ASSIGN(one->handle, decodeHandle(bytes));
  TUTTI_ASSIGN(one->dial, Dial::begin(one->handle));
  return one;
}

Code connectTo(int device, void* handle, void** comm) {
  *comm = nullptr;
  if (device != 0)
    return fail(invalidArgument(ErrorCode::NetPluginArgument, "there is no device ", device, "; there is device 0"));
  const auto bytes = asHandle(handle);
  std::unique_ptr<Connecting> one;
  if (const uint64_t number = dialOf(bytes); number != 0) one = Dials::instance().take(number);
  if (one == nullptr) {
    Result<std::unique_ptr<Connecting>> begun = dial(bytes);
    if (!begun.ok()) return fail(begun);
    one = std::move(*begun);
  }
  setDial(bytes, 0);
  Result<std::unique_ptr<Link>> link = goOn(one.get());
  if (!link.ok()) return fail(link);
  if (*link == nullptr) {
    setDial(bytes, Dials::instance().keep(std::move(one)));
  } else {
    *comm = static_cast<Comm*>(new SendComm(std::move(*link)));
  }
  return kSuccess;
}

Result<bool> comesUp(Listening* listening) {
  if (listening->link == nullptr) {
    std::optional<Sockets> sockets = listening->listener->poll();
    if (!sockets) return false;
    TUTTI_ASSIGN(listening->link, Link::begin(listening->listener->handle(), std::move(*sockets)));
  }
  return listening->link->up();
}

Code accept(void* listenComm, void** comm, void**) {
  *comm = nullptr;
  auto* const listening = static_cast<Listening*>(listenComm);
  const Result<bool> up = comesUp(listening);
  if (!up.ok()) {
    listening->link.reset();
    return fail(up);
  }
  if (*up) *comm = static_cast<Comm*>(new ReceiveComm(std::move(listening->link)));
  return kSuccess;
}

Code regMr(void* comm, void* data, size_t bytes, int kind, void** memory) {
  *memory = nullptr;
  if (kind != kHostMemory)
    return fail(invalidArgument(ErrorCode::NetPluginArgument, "memory of kind ", kind,
                                " is registered; ptrSupport is NCCL_PTR_HOST"));
  Result<std::unique_ptr<MemoryRegistration>> made = static_cast<Comm*>(comm)->link().registerMemory(data, bytes);
  if (!made.ok()) return fail(made);
  *memory = new RegisteredMemory{std::move(*made)};
  return kSuccess;
}

Code regMrDmaBuf(void*, void*, size_t, int, uint64_t, int, void** memory) {
  *memory = nullptr;
  return fail(
      invalidArgument(ErrorCode::NetPluginArgument, "memory is registered by DMA-BUF; ptrSupport is NCCL_PTR_HOST"));
}

Code deregMr(void*, void* memory) {
  delete static_cast<RegisteredMemory*>(memory);
  return kSuccess;
}

Code send(void* comm, void* data, size_t bytes, int tag, void** request) {
  *request = nullptr;
  auto* const sender = static_cast<SendComm*>(static_cast<Comm*>(comm));
  const Result<Work*> work = sender->send(data, bytes, tag);
  if (work.ok()) *request = *work;
  if (work.ok()) return kSuccess;
  return sender->failure().ok() ? fail(work) : failed(*sender);
}

template <class Size>
Code receive(void* comm, int n, void** data, const Size* bytes, const int* tags, void** request) {
  *request = nullptr;
  if (n < 1 || n > static_cast<int>(kMostGrouped))
    return fail(
        invalidArgument(ErrorCode::NetPluginArgument, "irecv of ", n, " buffers; it takes 1 to ", kMostGrouped));
  std::array<ReceiveComm::Buffer, kMostGrouped> buffers;
  for (int i = 0; i < n; ++i) {
    if (bytes[i] < Size{0}) return fail(invalidArgument(ErrorCode::NetPluginArgument, "irecv of ", bytes[i], " bytes"));
    buffers[static_cast<size_t>(i)] = {data[i], static_cast<size_t>(bytes[i]), tags[i]};
  }
  auto* const receiver = static_cast<ReceiveComm*>(static_cast<Comm*>(comm));
  const Result<Work*> work = receiver->receive({buffers.data(), static_cast<size_t>(n)});
  if (work.ok()) *request = *work;
  return work.ok() ? kSuccess : failed(*receiver);
}

/// Memory of the host needs none: no request.
Code iflush(void*, int, void**, int*, void**, void** request) {
  *request = nullptr;
  return kSuccess;
}

Code test(void* request, int* done, int* bytes) {
  auto* const work = static_cast<Work*>(request);
  Comm& comm = work->comm;
  *done = 0;
  const Status status = comm.progress();
  if (!work->done) return status.ok() ? kSuccess : failed(comm);
  *done = 1;
  for (size_t i = 0; bytes != nullptr && i < work->n; ++i) bytes[i] = static_cast<int>(work->bytes[i]);
  comm.forget(work);
  return kSuccess;
}

Code closeComm(void* comm) {
  delete static_cast<Comm*>(comm);
  return kSuccess;
}
Code closeListen(void* comm) {
  delete static_cast<Listening*>(comm);
  return kSuccess;
}

Code getDeviceMr(void*, void*, void** deviceMemory) {
  *deviceMemory = nullptr;
  return fail(invalidArgument(ErrorCode::NetPluginArgument, "there is no memory for code on devices"));
}
Code irecvConsumed(void*, int, void*) { return kSuccess; }
Code makeVirtualDevice(int*, void*) {
  return fail(invalidArgument(ErrorCode::NetPluginArgument, "there are no virtual devices"));
}

Code finalize(void*) { return kSuccess; }
Code setNetAttr(void*, void*) { return kSuccess; }

// ---- What differs between versions.

Code init8(Logger log) { return begin(log); }
Code init10(Logger log, Profiler) { return begin(log); }
Code init11(void** context, uint64_t, CommConfig*, Logger log, Profiler) {
  static int nothing;  // all communicators are alike here
  *context = &nothing;
  return begin(log);
}
Code listen8(int device, void* handle, void** comm) { return listenOn(device, handle, comm); }
Code listen11(void*, int device, void* handle, void** comm) { return listenOn(device, handle, comm); }
Code connect8(int device, void* handle, void** comm, void**) { return connectTo(device, handle, comm); }
Code connect10(int device, CommConfig*, void* handle, void** comm, void**) { return connectTo(device, handle, comm); }
Code connect11(void*, int device, void* handle, void** comm, void**) { return connectTo(device, handle, comm); }

template <class Size>
Code isend8(void* comm, void* data, Size bytes, int tag, void*, void** request) {
  if (bytes < Size{0}) return fail(invalidArgument(ErrorCode::NetPluginArgument, "isend of ", bytes, " bytes"));
  return send(comm, data, static_cast<size_t>(bytes), tag, request);
}
Code isend10(void* comm, void* data, size_t bytes, int tag, void*, void*, void** request) {
  return send(comm, data, bytes, tag, request);
}
template <class Size>
Code irecv8(void* comm, int n, void** data, Size* bytes, int* tags, void**, void** request) {
  return receive(comm, n, data, bytes, tags, request);
}
Code irecv10(void* comm, int n, void** data, size_t* bytes, int* tags, void**, void**, void** request) {
  return receive(comm, n, data, bytes, tags, request);
}

/// The functions that all versions have alike.
template <class Types>
constexpr ncclnet::Table<Types> commonTable() {
  ncclnet::Table<Types> table{};
  table.name = "Tutti";
  table.devices = devices;
  table.accept = accept;
  table.regMr = regMr;
  table.regMrDmaBuf = regMrDmaBuf;
  table.deregMr = deregMr;
  table.iflush = iflush;
  table.test = test;
  table.closeSend = closeComm;
  table.closeRecv = closeComm;
  table.closeListen = closeListen;
  table.getDeviceMr = getDeviceMr;
  table.irecvConsumed = irecvConsumed;
  table.makeVirtualDevice = makeVirtualDevice;
  table.finalize = finalize;
  table.setNetAttr = setNetAttr;
  return table;
}

template <class Types>
constexpr ncclnet::Table<Types> tableOf8Or9() {
  ncclnet::Table<Types> table = commonTable<Types>();
  table.init = init8;
  table.listen = listen8;
  table.connect = connect8;
  table.isend = isend8<typename Types::Size>;
  table.irecv = irecv8<typename Types::Size>;
  return table;
}

template <class Types>
constexpr ncclnet::Table<Types> tableOf10() {
  ncclnet::Table<Types> table = commonTable<Types>();
  table.init = init10;
  table.listen = listen8;
  table.connect = connect10;
  table.isend = isend10;
  table.irecv = irecv10;
  return table;
}

template <class Types>
constexpr ncclnet::Table<Types> tableOf11() {
  ncclnet::Table<Types> table = commonTable<Types>();
  table.init = init11;
  table.listen = listen11;
  table.connect = connect11;
  table.isend = isend10;
  table.irecv = irecv10;
  return table;
}

template <class Types, bool kHasMulti, bool kHasRail>
constexpr ncclnet::Table<Types> withProperties(ncclnet::Table<Types> table) {
  table.getProperties = getNewProperties<typename Types::Properties, kHasMulti, kHasRail>;
  return table;
}
constexpr ncclnet::Table<ncclnet::Types8> table8() {
  ncclnet::Table<ncclnet::Types8> table = tableOf8Or9<ncclnet::Types8>();
  table.getProperties = getProperties<ncclnet::Properties8>;
  return table;
}

}  // namespace
}  // namespace tutti::net_plugin

extern "C" {
using namespace tutti::net_plugin;
using namespace tutti::ncclnet;
[[gnu::visibility("default")]] extern const Table<Types8> ncclNetPlugin_v8;
[[gnu::visibility("default")]] extern const Table<Types9> ncclNetPlugin_v9;
[[gnu::visibility("default")]] extern const Table<Types10> ncclNetPlugin_v10;
[[gnu::visibility("default")]] extern const Table<Types11> ncclNetPlugin_v11;
[[gnu::visibility("default")]] extern const Table<Types12> ncclNetPlugin_v12;
constinit const Table<Types8> ncclNetPlugin_v8 = table8();
constinit const Table<Types9> ncclNetPlugin_v9 = withProperties<Types9, false, false>(tableOf8Or9<Types9>());
constinit const Table<Types10> ncclNetPlugin_v10 = withProperties<Types10, false, false>(tableOf10<Types10>());
constinit const Table<Types11> ncclNetPlugin_v11 = withProperties<Types11, true, false>(tableOf11<Types11>());
constinit const Table<Types12> ncclNetPlugin_v12 = withProperties<Types12, true, true>(tableOf11<Types12>());
}
