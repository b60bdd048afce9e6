// Open MPI's mpirun, srun --mpi=pmix and everything else that runs a PMIx server: rank 0 makes a unique id and
// publishes it.  libpmix is loaded at run time, so that Tutti needs none.
#include "src/bootstrap/launch.hpp"

#if TUTTI_HAVE_PMIX

#include <dlfcn.h>
#include <pmix.h>

#include <cstdlib>
#include <cstring>

#include "src/base/log.hpp"

namespace tutti::launch {
namespace {

struct Library {
  decltype(&PMIx_Init) init = nullptr;
  decltype(&PMIx_Finalize) finalize = nullptr;
  decltype(&PMIx_Get) get = nullptr;
  decltype(&PMIx_Put) put = nullptr;
  decltype(&PMIx_Commit) commit = nullptr;
  decltype(&PMIx_Fence) fence = nullptr;
  decltype(&PMIx_Error_string) errorString = nullptr;
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

/// Loaded once and kept: PMIx leaves threads and handlers behind.
const Library* library() {
  static const Library* const loaded = []() -> const Library* {
    void* handle = openLibrary();
    static Library l;
    const bool complete = handle != nullptr && load(handle, "PMIx_Init", &l.init) &&
                          load(handle, "PMIx_Finalize", &l.finalize) && load(handle, "PMIx_Get", &l.get) &&
                          load(handle, "PMIx_Put", &l.put) && load(handle, "PMIx_Commit", &l.commit) &&
                          load(handle, "PMIx_Fence", &l.fence) && load(handle, "PMIx_Error_string", &l.errorString);
    return complete ? &l : nullptr;
  }();
  return loaded;
}

/// One connection with the server, from PMIx_Init to PMIx_Finalize.
class Client {
 public:
  explicit Client(const Library& library) : library_(library) {}
  ~Client() {
    if (open_) library_.finalize(nullptr, 0);
  }
  /// False: there is no server.
  Result<bool> open() {
    const pmix_status_t status = library_.init(&self_, nullptr, 0);
    if (status == PMIX_ERR_UNREACH || status == PMIX_ERR_INVALID_NAMESPACE) return false;
    if (status != PMIX_SUCCESS) return problem("PMIx_Init", status);
    open_ = true;
    return true;
  }
  uint32_t rank() const { return self_.rank; }

  Result<uint32_t> jobSize() {
    TUTTI_ASSIGN(pmix_value_t * value, get(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE));
    const bool number = value->type == PMIX_UINT32;
    const uint32_t size = number ? value->data.uint32 : 0;
    std::free(value);
    if (!number || size == 0) return systemError("pmix: the server gives no number for ", PMIX_JOB_SIZE);
    return size;
  }

  Status publish(const std::string& key, std::string text) {
    pmix_value_t value{};
    value.type = PMIX_STRING;
    value.data.string = text.data();
    if (const auto status = library_.put(PMIX_GLOBAL, key.c_str(), &value); status != PMIX_SUCCESS) {
      return problem("PMIx_Put", status);
    }
    const auto status = library_.commit();
    return status == PMIX_SUCCESS ? Status() : problem("PMIx_Commit", status);
  }

  /// Wait for all ranks and exchange what they published.
  Status fence(Deadline deadline) {
    pmix_info_t info[2] = {};
    std::strncpy(info[0].key, PMIX_COLLECT_DATA, PMIX_MAX_KEYLEN);
    info[0].value.type = PMIX_BOOL;
    info[0].value.data.flag = true;
    std::strncpy(info[1].key, PMIX_TIMEOUT, PMIX_MAX_KEYLEN);
    info[1].value.type = PMIX_INT;
    info[1].value.data.integer = deadline.leftMs(1 << 30) / 1000 + 1;
    const bool limited = deadline.ns() != Deadline::never().ns();
    const pmix_status_t status = library_.fence(nullptr, 0, info, limited ? 2 : 1);
    if (status == PMIX_ERR_TIMEOUT) return timeoutError("pmix: not all ranks came to the fence before the deadline");
    return status == PMIX_SUCCESS ? Status() : problem("PMIx_Fence", status);
  }

  Result<std::string> fetch(uint32_t rank, const std::string& key) {
    TUTTI_ASSIGN(pmix_value_t * value, get(rank, key.c_str()));
    const bool isText = value->type == PMIX_STRING && value->data.string != nullptr;
    const std::string text = isText ? value->data.string : "";
    if (isText) std::free(value->data.string);
    std::free(value);
    if (!isText) return systemError("pmix: rank ", rank, " published something else under ", key);
    return text;
  }

 private:
  Result<pmix_value_t*> get(uint32_t rank, const char* key) {
    pmix_proc_t whose{};
    std::memcpy(whose.nspace, self_.nspace, sizeof whose.nspace);
    whose.rank = rank;
    pmix_value_t* value = nullptr;
    const pmix_status_t status = library_.get(&whose, key, nullptr, 0, &value);
    if (status != PMIX_SUCCESS || value == nullptr) return problem(cat("PMIx_Get of ", key), status);
    return value;
  }
  Status problem(const std::string& what, pmix_status_t status) const {
    return systemError("pmix: ", what, " failed: ", library_.errorString(status));
  }

  const Library& library_;
  pmix_proc_t self_{};
  bool open_ = false;
};

Result<tuttiUniqueId> parseId(const std::string& hex) {
  std::vector<unsigned char> bytes;
  tuttiUniqueId id{};
  if (!fromHex(hex, &bytes) || bytes.size() != sizeof id) return systemError("pmix: rank 0 published no unique id");
  std::memcpy(&id, bytes.data(), sizeof id);
  return id;
}

}  // namespace

Found pmix(Deadline deadline) {
  // Set by every PMIx server; looking for it first spares everyone else the loading of a library.
  if (text("PMIX_NAMESPACE").empty() || text("PMIX_RANK").empty()) return std::optional<LaunchInfo>();
  const Library* loaded = library();
  if (loaded == nullptr) {
    return invalidUsage("PMIX_NAMESPACE is set, but libpmix.so.2 cannot be loaded; is its folder in LD_LIBRARY_PATH?");
  }
  Client client(*loaded);
  TUTTI_ASSIGN(const bool server, client.open());
  if (!server) {
    TUTTI_DEBUG("bootstrap", "PMIX_NAMESPACE is set, but no PMIx server answers");
    return std::optional<LaunchInfo>();
  }
  TUTTI_ASSIGN(const uint32_t size, client.jobSize());
  LaunchInfo info{"pmix", static_cast<int>(client.rank()), static_cast<int>(size), {}};
  if (size == 1) return std::optional(info);
  const std::string key = cat("tutti.id.", generation());
  if (info.rank == 0) {
    TUTTI_ASSIGN(info.id, openMeetingPlace());
    TUTTI_TRY(client.publish(key, toHex(&info.id, sizeof info.id)));
  }
  TUTTI_TRY(client.fence(deadline));
  if (info.rank != 0) {
    TUTTI_ASSIGN(const std::string hex, client.fetch(0, key));
    TUTTI_ASSIGN(info.id, parseId(hex));
  }
  return std::optional(info);
}

}  // namespace tutti::launch

#else  // built without PMIx's headers

namespace tutti::launch {

Found pmix(Deadline) {
  const std::string size = text("OMPI_COMM_WORLD_SIZE");
  if (text("PMIX_NAMESPACE").empty() || size.empty() || size == "1") return std::optional<LaunchInfo>();
  return invalidUsage("OMPI_COMM_WORLD_SIZE=", size, ", but this build of Tutti has no PMIx support");
}

}  // namespace tutti::launch

#endif
