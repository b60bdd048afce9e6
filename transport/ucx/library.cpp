#include "transport/ucx/library.hpp"

#include <dlfcn.h>
#include <ucs/debug/log_def.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <type_traits>
#include <utility>

#include "src/base/log.hpp"

namespace tutti::ucx {
namespace {

constexpr const char* kName = "libucp.so.0";
constexpr unsigned kMajor = 1, kLeastMinor = 13;
constexpr size_t kMostSaid = 300;

thread_local bool listening = false;
thread_local std::string said;

ucs_log_func_rc_t hear(const char*, unsigned, const char*, ucs_log_level_t level, const ucs_log_component_config_t*,
                       const char* format, va_list arguments) {
  if (!listening || level > UCS_LOG_LEVEL_WARN) return UCS_LOG_FUNC_RC_CONTINUE;
  std::array<char, 512> text;
  std::vsnprintf(text.data(), text.size(), format, arguments);
  TUTTI_DEBUG("ucx", text.data());
  if (said.size() < kMostSaid) said += cat(said.empty() ? "" : "; ", text.data());
  return UCS_LOG_FUNC_RC_STOP;
}

struct Loaded {
  Library functions{};
  std::string lacks;  // "" if it is there
};

/// "" if it is of a version that may be used.
std::string checkVersion(Library* f) {
  unsigned major = 0, minor = 0, release = 0;
  f->getVersion(&major, &minor, &release);
  f->version = cat(major, ".", minor, ".", release);
  if (major == kMajor && minor >= kLeastMinor) return "";
  return cat(kName, " is of UCX ", f->version, "; ", kMajor, ".", kLeastMinor, " or newer, of 1.x, is needed");
}

Loaded load() {
  Loaded loaded;
  Library& f = loaded.functions;
  void* const handle = dlopen(kName, RTLD_NOW | RTLD_LOCAL);  // stays
  if (handle == nullptr) {
    loaded.lacks = cat(kName, " cannot be loaded (", dlerror(), "); Debian and Ubuntu have it in the package libucx0");
    return loaded;
  }
  const auto find = [&](auto* function, const char* name) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(handle, name));
    if (*function == nullptr && loaded.lacks.empty()) loaded.lacks = cat(kName, " lacks ", name);
  };
  find(&f.getVersion, "ucp_get_version");
  if (loaded.lacks.empty()) loaded.lacks = checkVersion(&f);
  find(&f.configRead, "ucp_config_read");
  find(&f.configModify, "ucp_config_modify");
  find(&f.configRelease, "ucp_config_release");
  find(&f.initVersion, "ucp_init_version");
  find(&f.cleanup, "ucp_cleanup");
  find(&f.contextQuery, "ucp_context_query");
  find(&f.memMap, "ucp_mem_map");
  find(&f.memUnmap, "ucp_mem_unmap");
  find(&f.workerCreate, "ucp_worker_create");
  find(&f.workerDestroy, "ucp_worker_destroy");
  find(&f.workerGetAddress, "ucp_worker_get_address");
  find(&f.workerReleaseAddress, "ucp_worker_release_address");
  find(&f.workerGetEfd, "ucp_worker_get_efd");
  find(&f.workerArm, "ucp_worker_arm");
  find(&f.workerProgress, "ucp_worker_progress");
  find(&f.setAmHandler, "ucp_worker_set_am_recv_handler");
  find(&f.epCreate, "ucp_ep_create");
  find(&f.epClose, "ucp_ep_close_nbx");
  find(&f.epPrintInfo, "ucp_ep_print_info");
  find(&f.amSend, "ucp_am_send_nbx");
  find(&f.amReceive, "ucp_am_recv_data_nbx");
  find(&f.amRelease, "ucp_am_data_release");
  find(&f.requestStatus, "ucp_request_check_status");
  find(&f.requestFree, "ucp_request_free");
  find(&f.statusText, "ucs_status_string");
  if (!loaded.lacks.empty()) return loaded;
  using PushHandler = void (*)(ucs_log_func_t);
  if (const auto push = reinterpret_cast<PushHandler>(dlsym(handle, "ucs_log_push_handler"))) push(hear);
  return loaded;
}

}  // namespace

Result<const Library*> library() {
  static const Loaded loaded = load();
  if (!loaded.lacks.empty()) return invalidUsage(ErrorCode::UcxStart, loaded.lacks);
  return &loaded.functions;
}

Listening::Listening() {
  said.clear();
  listening = true;
}

Listening::~Listening() { listening = false; }

std::string Listening::complaint(ucs_status_t status) const {
  const auto api = library();
  const std::string words = std::exchange(said, "");
  return cat(api.ok() ? (*api)->statusText(status) : "error", words.empty() ? "" : " (", words,
             words.empty() ? "" : ")");
}

}  // namespace tutti::ucx
