#include "transport/verbs/library.hpp"

#include <dlfcn.h>

#include <type_traits>

namespace tutti::verbs {
namespace {

struct Loaded {
  Library functions{};
  std::string lacks;  // "" if it is there
};

Loaded load() {
  Loaded loaded;
  Library& f = loaded.functions;
  void* const handle = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);  // stays
  if (handle == nullptr) {
    loaded.lacks = "libibverbs.so.1 cannot be loaded";
    return loaded;
  }
  const auto find = [&](auto* function, const char* name) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(handle, name));
    if (*function == nullptr) loaded.lacks = cat("libibverbs.so.1 lacks ", name);
  };
  find(&f.getDeviceList, "ibv_get_device_list");
  find(&f.freeDeviceList, "ibv_free_device_list");
  find(&f.getDeviceName, "ibv_get_device_name");
  find(&f.openDevice, "ibv_open_device");
  find(&f.closeDevice, "ibv_close_device");
  find(&f.queryDevice, "ibv_query_device");
  find(&f.queryPort, "ibv_query_port");
  find(&f.queryGid, "ibv_query_gid");
  find(&f.allocPd, "ibv_alloc_pd");
  find(&f.deallocPd, "ibv_dealloc_pd");
  find(&f.regMr, "ibv_reg_mr");
  find(&f.deregMr, "ibv_dereg_mr");
  find(&f.createCompChannel, "ibv_create_comp_channel");
  find(&f.destroyCompChannel, "ibv_destroy_comp_channel");
  find(&f.getCqEvent, "ibv_get_cq_event");
  find(&f.ackCqEvents, "ibv_ack_cq_events");
  find(&f.createCq, "ibv_create_cq");
  find(&f.resizeCq, "ibv_resize_cq");
  find(&f.destroyCq, "ibv_destroy_cq");
  find(&f.createQp, "ibv_create_qp");
  find(&f.modifyQp, "ibv_modify_qp");
  find(&f.destroyQp, "ibv_destroy_qp");
  find(&f.getAsyncEvent, "ibv_get_async_event");
  find(&f.ackAsyncEvent, "ibv_ack_async_event");
  find(&f.statusText, "ibv_wc_status_str");
  find(&f.eventText, "ibv_event_type_str");
  find(&f.forkInit, "ibv_fork_init");
  f.regMrIova2 = reinterpret_cast<decltype(f.regMrIova2)>(dlsym(handle, "ibv_reg_mr_iova2"));
  f.regDmaBuf = reinterpret_cast<decltype(f.regDmaBuf)>(dlsym(handle, "ibv_reg_dmabuf_mr"));
  // A process that forks would else lose what it has registered, on kernels before 5.12.  It fails where something was
  // registered before, which is the program's own affair then.
  if (loaded.lacks.empty()) (void)f.forkInit();
  return loaded;
}

}  // namespace

Result<const Library*> library() {
  static const Loaded loaded = load();
  if (!loaded.lacks.empty()) return invalidUsage(ErrorCode::TransportAbsent, loaded.lacks);
  return &loaded.functions;
}

}  // namespace tutti::verbs
