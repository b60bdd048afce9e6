#include "transport/ncclnet/net.hpp"

#include <atomic>

#include "src/base/text.hpp"

namespace tutti::ncclnet {
namespace {

constexpr int kOnlyTag = 0;  // comms carry one kind of message

Code noEvent(void**, int, void*, int64_t, void*) { return kSuccess; }

uint64_t nextCommunicator() {
  static std::atomic<uint64_t> number{0};
  return ++number;
}

template <int kVersion, class Types>
class Adapter final : public Net {
 public:
  explicit Adapter(const void* table) : table_(*static_cast<const Table<Types>*>(table)) {}

  const char* name() const override { return table_.name; }
  int version() const override { return kVersion; }
  Code init(Logger logger) override {
    if constexpr (kVersion >= 11) return table_.init(&context_, nextCommunicator(), &config_, logger, noEvent);
    if constexpr (kVersion == 10) return table_.init(logger, noEvent);
    if constexpr (kVersion < 10) return table_.init(logger);
  }
  Code finalize() override {
    if constexpr (kVersion >= 11) return table_.finalize(context_);
    return kSuccess;
  }
  Code devices(int* n) override { return table_.devices(n); }
  Code getProperties(int device, DeviceProperties* into) override {
    typename Types::Properties properties{};
    const Code code = table_.getProperties(device, &properties);
    if (code != kSuccess) return code;
    into->name = properties.name != nullptr ? properties.name : "";
    into->memory = properties.memory;
    into->deviceType = properties.deviceType;
    into->pciPath = properties.pciPath != nullptr ? properties.pciPath : "";
    if constexpr (kVersion >= 9) into->mostBytes = properties.mostBytes;
    if constexpr (kVersion >= 9) into->alwaysFlush = properties.alwaysFlush != 0;
    if (into->mostBytes == 0) into->mostBytes = size_t{1} << 30;  // a plugin that does not say
    return kSuccess;
  }
  Code listen(int device, void* handle, void** comm) override {
    if constexpr (kVersion >= 11) return table_.listen(context_, device, handle, comm);
    if constexpr (kVersion < 11) return table_.listen(device, handle, comm);
  }
  Code connect(int device, void* handle, void** comm) override {
    void* noDevice = nullptr;
    if constexpr (kVersion >= 11) return table_.connect(context_, device, handle, comm, &noDevice);
    if constexpr (kVersion == 10) return table_.connect(device, &config_, handle, comm, &noDevice);
    if constexpr (kVersion < 10) return table_.connect(device, handle, comm, &noDevice);
  }
  Code accept(void* listenComm, void** comm) override {
    void* noDevice = nullptr;
    return table_.accept(listenComm, comm, &noDevice);
  }
  Code regMr(void* comm, void* data, size_t bytes, int kind, void** memory) override {
    return table_.regMr(comm, data, bytes, kind, memory);
  }
  Code regMrDmaBuf(void* comm, void* data, size_t bytes, uint64_t offset, int fd, void** memory) override {
    if (table_.regMrDmaBuf == nullptr) return kInvalidUsage;
    return table_.regMrDmaBuf(comm, data, bytes, kCudaMemory, offset, fd, memory);
  }
  Code deregMr(void* comm, void* memory) override { return table_.deregMr(comm, memory); }
  Code isend(void* comm, void* data, size_t bytes, void* memory, void** request) override {
    const auto size = static_cast<typename Types::Size>(bytes);
    if constexpr (kVersion >= 10) return table_.isend(comm, data, size, kOnlyTag, memory, nullptr, request);
    if constexpr (kVersion < 10) return table_.isend(comm, data, size, kOnlyTag, memory, request);
  }
  Code irecv(void* comm, void* data, size_t bytes, void* memory, void** request) override {
    auto size = static_cast<typename Types::Size>(bytes);
    int tag = kOnlyTag;
    void* event = nullptr;
    if constexpr (kVersion >= 10) return table_.irecv(comm, 1, &data, &size, &tag, &memory, &event, request);
    if constexpr (kVersion < 10) return table_.irecv(comm, 1, &data, &size, &tag, &memory, request);
  }
  bool hasFlush() const override { return table_.iflush != nullptr; }
  Code iflush(void* comm, void* data, size_t bytes, void* memory, void** request) override {
    int size = static_cast<int>(bytes);
    return table_.iflush(comm, 1, &data, &size, &memory, request);
  }
  Code test(void* request, int* done, int* bytes) override { return table_.test(request, done, bytes); }
  Code closeSend(void* comm) override { return table_.closeSend(comm); }
  Code closeRecv(void* comm) override { return table_.closeRecv(comm); }
  Code closeListen(void* comm) override { return table_.closeListen(comm); }

 private:
  const Table<Types>& table_;
  void* context_ = nullptr;
  CommConfig config_;
};

template <int kVersion, class Types>
std::unique_ptr<Net> adapt(const void* table) {
  return std::make_unique<Adapter<kVersion, Types>>(table);
}

constexpr Version kVersions[] = {{"ncclNetPlugin_v12", adapt<12, Types12>},
                                 {"ncclNetPlugin_v11", adapt<11, Types11>},
                                 {"ncclNetPlugin_v10", adapt<10, Types10>},
                                 {"ncclNetPlugin_v9", adapt<9, Types9>},
                                 {"ncclNetPlugin_v8", adapt<8, Types8>}};

}  // namespace

std::span<const Version> versions() { return kVersions; }

std::string nameOf(Code code) {
  constexpr const char* kNames[] = {"ncclSuccess",       "ncclUnhandledCudaError", "ncclSystemError",
                                    "ncclInternalError", "ncclInvalidArgument",    "ncclInvalidUsage",
                                    "ncclRemoteError",   "ncclInProgress"};
  const bool known = code >= 0 && static_cast<size_t>(code) < std::size(kNames);
  return known ? kNames[code] : cat("the unknown code ", code);
}

}  // namespace tutti::ncclnet
