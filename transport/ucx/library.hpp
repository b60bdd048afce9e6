// libucp, loaded when it is first asked for: only its headers are needed to build.
#pragma once

#include <ucp/api/ucp.h>

#include <string>

#include "src/base/status.hpp"

namespace tutti::ucx {

/// The functions that are called by name.
struct Library {
  decltype(&::ucp_get_version) getVersion;
  decltype(&::ucp_config_read) configRead;
  decltype(&::ucp_config_modify) configModify;
  decltype(&::ucp_config_release) configRelease;
  decltype(&::ucp_init_version) initVersion;
  decltype(&::ucp_cleanup) cleanup;
  decltype(&::ucp_context_query) contextQuery;
  decltype(&::ucp_mem_map) memMap;
  decltype(&::ucp_mem_unmap) memUnmap;
  decltype(&::ucp_worker_create) workerCreate;
  decltype(&::ucp_worker_destroy) workerDestroy;
  decltype(&::ucp_worker_get_address) workerGetAddress;
  decltype(&::ucp_worker_release_address) workerReleaseAddress;
  decltype(&::ucp_worker_get_efd) workerGetEfd;
  decltype(&::ucp_worker_arm) workerArm;
  decltype(&::ucp_worker_progress) workerProgress;
  decltype(&::ucp_worker_set_am_recv_handler) setAmHandler;
  decltype(&::ucp_ep_create) epCreate;
  decltype(&::ucp_ep_close_nbx) epClose;
  decltype(&::ucp_ep_print_info) epPrintInfo;
  decltype(&::ucp_am_send_nbx) amSend;
  decltype(&::ucp_am_recv_data_nbx) amReceive;
  decltype(&::ucp_am_data_release) amRelease;
  decltype(&::ucp_request_check_status) requestStatus;
  decltype(&::ucp_request_free) requestFree;
  decltype(&::ucs_status_string) statusText;
  std::string version;  // "1.13.1"
};

/// Errors: InvalidUsage, a clause: the library is not there, is too old, or lacks a function.
Result<const Library*> library();

/// While it lives, UCX's warnings and errors in this thread are kept, instead of printed, for the sentence that says
/// what failed.
class Listening {
 public:
  Listening();
  ~Listening();
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;
  /// "No such device (no usable transports/devices)".
  std::string complaint(ucs_status_t status) const;
};

}  // namespace tutti::ucx
