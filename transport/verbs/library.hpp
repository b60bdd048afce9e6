// libibverbs, loaded when it is first asked for: only its headers are needed to build.
#pragma once

#include <infiniband/verbs.h>

#include "src/base/status.hpp"

namespace tutti::verbs {

/// The functions that are called by name; posting, polling and arming go through a device's own table (verbs.h).
struct Library {
  decltype(&::ibv_get_device_list) getDeviceList;
  decltype(&::ibv_free_device_list) freeDeviceList;
  decltype(&::ibv_get_device_name) getDeviceName;
  decltype(&::ibv_open_device) openDevice;
  decltype(&::ibv_close_device) closeDevice;
  decltype(&::ibv_query_device) queryDevice;
  decltype(&::ibv_query_port) queryPort;
  decltype(&::ibv_query_gid) queryGid;
  decltype(&::ibv_alloc_pd) allocPd;
  decltype(&::ibv_dealloc_pd) deallocPd;
  decltype(&::ibv_reg_mr) regMr;
  decltype(&::ibv_reg_mr_iova2) regMrIova2;  // null before rdma-core 28
  /// ibv_reg_dmabuf_mr; null before rdma-core 34.
  ibv_mr* (*regDmaBuf)(ibv_pd*, uint64_t offset, size_t bytes, uint64_t address, int fd, int access);
  decltype(&::ibv_dereg_mr) deregMr;
  decltype(&::ibv_create_comp_channel) createCompChannel;
  decltype(&::ibv_destroy_comp_channel) destroyCompChannel;
  decltype(&::ibv_get_cq_event) getCqEvent;
  decltype(&::ibv_ack_cq_events) ackCqEvents;
  decltype(&::ibv_create_cq) createCq;
  decltype(&::ibv_resize_cq) resizeCq;
  decltype(&::ibv_destroy_cq) destroyCq;
  decltype(&::ibv_create_qp) createQp;
  decltype(&::ibv_modify_qp) modifyQp;
  decltype(&::ibv_destroy_qp) destroyQp;
  decltype(&::ibv_get_async_event) getAsyncEvent;
  decltype(&::ibv_ack_async_event) ackAsyncEvent;
  decltype(&::ibv_wc_status_str) statusText;
  decltype(&::ibv_event_type_str) eventText;
  decltype(&::ibv_fork_init) forkInit;
};

/// Errors: InvalidUsage, a clause: the library is not there, or lacks a function.
Result<const Library*> library();

}  // namespace tutti::verbs
