// Open MPI's mpirun, srun --mpi=pmix and everything else that runs a PMIx server: rank 0 makes a unique id and
// publishes it.  libpmix is loaded at run time, so that Tutti needs none.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <mutex>

#include "src/base/log.hpp"
#include "src/control/launch/launch.hpp"
#include "src/control/launch/pmix_abi.hpp"

namespace tutti::launch {
namespace {

using namespace tutti::pmix;

struct Library {
#define TUTTI_PMIX_MEMBER(name, result, parameters) result(*name) parameters = nullptr;
  TUTTI_PMIX_FUNCTIONS(TUTTI_PMIX_MEMBER)
#undef TUTTI_PMIX_MEMBER
};

void* openLibrary() {
  // Debian keeps it in a folder of its own, where only its alternatives link leads.
  static constexpr const char* kNames[] = {
      "libpmix.so.2",
      "/usr/lib/x86_64-linux-gnu/pmix2/lib/libpmix.so.2",
      "/usr/lib/aarch64-linux-gnu/pmix2/lib/libpmix.so.2",
      "/usr/lib/x86_64-linux-gnu/libpmix.so.2",
      "/usr/lib64/libpmix.so.2",
      "/usr/local/lib/libpmix.so.2",
      "/opt/pmix/lib/libpmix.so.2",
  };
  for (const char* name : kNames) {
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return handle;
  }
  return nullptr;
}

template <class F>
bool load(void* handle, const char* name, F* function) {
  *function = reinterpret_cast<F>(dlsym(handle, name));
  return *function != nullptr;
}

/// Loaded once and kept: PMIx leaves threads and handlers behind.  Null if there is none.
const Library* library() {
  static const Library* const loaded = []() -> const Library* {
    void* handle = openLibrary();
    if (handle == nullptr) return nullptr;
    static Library l;
    bool complete = true;
#define TUTTI_PMIX_LOAD(name, result, parameters) complete = load(handle, #name, &l.name) && complete;
    TUTTI_PMIX_FUNCTIONS(TUTTI_PMIX_LOAD)
#undef TUTTI_PMIX_LOAD
    return complete ? &l : nullptr;
  }();
  return loaded;
}

/// The connection with the server.  One of a process, to its end: where a rank finalizes while others of its host have
/// come to the next fence, servers count wrongly, and the fence never ends.
class Client {
 public:
  explicit Client(const Library& library) : library_(library) {}
  ~Client() {
    if (open_ && owner_ == getpid()) library_.PMIx_Finalize(nullptr, 0);
  }
  /// False: there is no server.
  Result<bool> open() {
    if (open_) return true;
    const PmixStatus status = library_.PMIx_Init(&self_, nullptr, 0);
    if (status == kErrorUnreachable || status == kErrorInvalidNamespace) return false;
    if (status != kSuccess) return problem("PMIx_Init", status);
    open_ = true;
    owner_ = getpid();
    return true;
  }
  uint32_t rank() const { return self_.rank; }

  Result<uint32_t> jobSize() {
    TUTTI_ASSIGN(Value * value, get(kAnyRank, kJobSize));
    const bool number = value->type == kUint32;
    const uint32_t size = number ? value->data.uint32 : 0;
    std::free(value);
    if (!number || size == 0)
      return systemError(ErrorCode::LauncherBroken, "pmix: the server gives no number for ", kJobSize);
    return size;
  }

  Status publish(const std::string& key, std::string text) {
    Value value{};
    value.type = kString;
    value.data.string = text.data();
    if (const auto status = library_.PMIx_Put(kGlobalScope, key.c_str(), &value); status != kSuccess) {
      return problem("PMIx_Put", status);
    }
    const auto status = library_.PMIx_Commit();
    return status == kSuccess ? Status() : problem("PMIx_Commit", status);
  }

  /// Wait for all ranks and exchange what they published.
  Status fence(Deadline deadline) {
    Info info[2] = {};
    std::strcpy(info[0].key, kCollectData);
    info[0].value.type = kBool;
    info[0].value.data.flag = true;
    std::strcpy(info[1].key, kTimeoutSeconds);
    info[1].value.type = kInt;
    info[1].value.data.integer = deadline.leftMs(1 << 30) / 1000 + 1;
    const bool limited = deadline.ns() != Deadline::never().ns();
    const PmixStatus status = library_.PMIx_Fence(nullptr, 0, info, limited ? 2 : 1);
    if (status == kErrorTimeout)
      return timeoutError(ErrorCode::LauncherSilent, "pmix: not all ranks came to the fence before the deadline");
    return status == kSuccess ? Status() : problem("PMIx_Fence", status);
  }

  Result<std::string> fetch(uint32_t rank, const std::string& key) {
    TUTTI_ASSIGN(Value * value, get(rank, key.c_str()));
    const bool isText = value->type == kString && value->data.string != nullptr;
    const std::string text = isText ? value->data.string : "";
    if (isText) std::free(value->data.string);
    std::free(value);
    if (!isText)
      return systemError(ErrorCode::LauncherBroken, "pmix: rank ", rank, " published something else under ", key);
    return text;
  }

 private:
  Result<Value*> get(uint32_t rank, const char* key) {
    Process whose{};
    std::memcpy(whose.nameSpace, self_.nameSpace, sizeof whose.nameSpace);
    whose.rank = rank;
    Value* value = nullptr;
    const PmixStatus status = library_.PMIx_Get(&whose, key, nullptr, 0, &value);
    if (status != kSuccess || value == nullptr) return problem(cat("PMIx_Get of ", key), status);
    return value;
  }
  Status problem(const std::string& what, PmixStatus status) const {
    return systemError(ErrorCode::LauncherBroken, "pmix: ", what, " failed: ", library_.PMIx_Error_string(status));
  }

  const Library& library_;
  Process self_{};
  bool open_ = false;
  pid_t owner_ = 0;
};

}  // namespace

bool pmixLoads() { return library() != nullptr; }

Found pmix(Deadline deadline) {
  // What mpirun itself says: more ranks than one never run as jobs of one rank each, and not as a batch script's.
  const std::string expected = text("OMPI_COMM_WORLD_SIZE");
  const bool several = !expected.empty() && expected != "1";
  // Set by every PMIx server; looking for it first spares everyone else the loading of a library.
  if (text("PMIX_NAMESPACE").empty() || text("PMIX_RANK").empty()) {
    if (!several) return std::optional<LaunchInfo>();
    return invalidUsage(
        ErrorCode::PmixMissing, "OMPI_COMM_WORLD_SIZE=", expected,
        ", but PMIX_NAMESPACE and PMIX_RANK are not set, by which ranks of mpirun meet (Open MPI 3 or newer); ",
        "use tutti-run or srun, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT");
  }
  const Library* loaded = library();
  if (loaded == nullptr) {
    if (expected == "1") return std::optional<LaunchInfo>();
    return invalidUsage(
        ErrorCode::PmixMissing,
        "PMIX_NAMESPACE is set, but libpmix.so.2, by which ranks of mpirun and srun meet, cannot be loaded; "
        "install it (Debian and Ubuntu: libpmix2), or put its folder in LD_LIBRARY_PATH");
  }
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  static Client client(*loaded);
  TUTTI_ASSIGN(const bool server, client.open());
  if (!server) {
    if (several) {
      return invalidUsage(ErrorCode::PmixMissing, "OMPI_COMM_WORLD_SIZE=", expected,
                          ", but no PMIx server answers for PMIX_NAMESPACE=", text("PMIX_NAMESPACE"),
                          "; can this process reach mpirun's folder PMIX_SERVER_TMPDIR=", text("PMIX_SERVER_TMPDIR"),
                          "?");
    }
    TUTTI_DEBUG("bootstrap", "PMIX_NAMESPACE is set, but no PMIx server answers");
    return std::optional<LaunchInfo>();
  }
  TUTTI_ASSIGN(const uint32_t size, client.jobSize());
  LaunchInfo info{"pmix", static_cast<int>(client.rank()), static_cast<int>(size), {}};
  if (size == 1) return std::optional(info);
  const std::string key = cat("tutti.id.", generation());
  if (info.rank == 0) {
    TUTTI_ASSIGN(info.id, openRendezvousPlace(allRanksHere(info.nRanks) ? Reach::Host : Reach::Network));
    TUTTI_TRY(client.publish(key, toHex(&info.id, sizeof info.id)));
  }
  TUTTI_TRY(client.fence(deadline));
  if (info.rank != 0) {
    TUTTI_ASSIGN(const std::string hex, client.fetch(0, key));
    TUTTI_ASSIGN(info.id, publishedId("pmix", hex));
  }
  return std::optional(info);
}

}  // namespace tutti::launch
