// libibverbs for one process, without adapters: four devices whose operations are carried out by the thread that posts
// them.  It is as strict as adapters are: keys, ranges, rights, depths of queues, and a receive that is not there is an
// error.  Functions that Tutti does not call are missing.
#include "tests/support/fake_verbs/fake_verbs.hpp"

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/support/adapter_cuda.hpp"

#undef ibv_reg_mr
#undef ibv_query_port
#undef ibv_get_device_list

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

using tutti::fake_verbs::Fault;
using tutti::fake_verbs::kDevices;
using tutti::test::cuda;

constexpr uint32_t kMostInline = 256;
constexpr int kMostEntries = 32767;

struct Device {
  ibv_device base{};
  ibv_gid gid{};
  Fault fault = Fault::None;
  unsigned passes = 0;   // operations that succeed before it
  uint64_t carried = 0;  // bytes, of operations of its pairs
};

struct Event {
  ibv_event_type type;
};

struct Context {
  ibv_context base{};
  Device* device = nullptr;
  std::deque<Event> events;
};

struct Region {
  ibv_mr base{};
  int access = 0;
  bool dmaBuf = false;
  bool holds(uint64_t address, size_t bytes) const {
    const auto begin = reinterpret_cast<uint64_t>(base.addr);
    return address >= begin && bytes <= base.length && address - begin <= base.length - bytes;
  }
};

struct Pair;
struct Done {
  ibv_wc wc;
  Pair* pair;
  uint64_t operation;  // of its sends; 0: a receive
};

struct Queue {
  ibv_cq base{};
  std::deque<Done> done;
  bool armed = false;
};

struct Channel {
  ibv_comp_channel base{};
  std::deque<Queue*> events;
};

struct Pair {
  ibv_qp base{};
  Device* device = nullptr;
  ibv_qp_cap most{};
  uint32_t peer = 0;
  ibv_gid peerGid{};
  int access = 0;
  std::deque<uint64_t> receives;  // their wr_id
  uint64_t posted = 0, reaped = 0;
};

struct World {
  std::mutex mutex;
  std::array<Device, kDevices> devices;
  std::vector<Context*> contexts;
  std::map<uint32_t, Region*> regions;  // by key
  std::map<uint32_t, Pair*> pairs;      // by number
  uint32_t lastKey = 100, lastNumber = 1000;
};

int postSend(ibv_qp* qp, ibv_send_wr* work, ibv_send_wr** bad);
int postReceive(ibv_qp* qp, ibv_recv_wr* work, ibv_recv_wr** bad);
int pollQueue(ibv_cq* cq, int most, ibv_wc* into);
int armQueue(ibv_cq* cq, int);

World& world() {
  static World* const all = [] {
    auto* const made = new World;
    for (int i = 0; i < kDevices; ++i) {
      Device& device = made->devices[static_cast<size_t>(i)];
      device.base.node_type = IBV_NODE_CA;
      device.base.transport_type = IBV_TRANSPORT_IB;
      std::snprintf(device.base.name, sizeof device.base.name, "fake_%d", i);
      device.gid.raw[0] = 0xfd;
      device.gid.raw[15] = static_cast<uint8_t>(i + 1);
    }
    return made;
  }();
  return *all;
}

[[noreturn]] void die(const char* why) {
  std::fprintf(stderr, "fake_verbs: %s\n", why);
  std::abort();
}

// Not memcpy(): the thread sanitizer must not see what adapters do.
__attribute__((optimize("no-tree-loop-distribute-patterns"))) void copyBytes(uint64_t to, uint64_t from, size_t bytes) {
  auto* const dst = reinterpret_cast<volatile char*>(to);
  const auto* const src = reinterpret_cast<const char*>(from);
  for (size_t i = 0; i < bytes; ++i) dst[i] = src[i];
}

/// With the order of PCI.
void move(uint64_t to, uint64_t from, size_t bytes) {
  if (cuda().adapterReads != nullptr) cuda().adapterReads(from, bytes);
  if (cuda().adapterWrites == nullptr || cuda().adapterWrites(to, from, bytes) == 0) copyBytes(to, from, bytes);
}

void signal(int fd) {
  const uint64_t one = 1;
  if (write(fd, &one, sizeof one) != sizeof one) die("an event descriptor is full");
}
bool take(int fd) {
  uint64_t one = 0;
  return read(fd, &one, sizeof one) == sizeof one;
}

void complete(ibv_cq* cq, const Done& done) {
  auto* const queue = reinterpret_cast<Queue*>(cq);
  if (static_cast<int>(queue->done.size()) >= queue->base.cqe) die("a completion queue has overflowed");
  queue->done.push_back(done);
  if (!std::exchange(queue->armed, false)) return;
  auto* const channel = reinterpret_cast<Channel*>(queue->base.channel);
  channel->events.push_back(queue);
  signal(channel->base.fd);
}

Done doneOf(Pair* pair, uint64_t id, ibv_wc_status status, ibv_wc_opcode opcode, uint64_t operation) {
  Done done{.wc = {}, .pair = pair, .operation = operation};
  done.wc.wr_id = id;
  done.wc.status = status;
  done.wc.opcode = opcode;
  done.wc.qp_num = pair->base.qp_num;
  return done;
}

void toError(Pair* pair) {
  if (pair->base.state == IBV_QPS_ERR) return;
  pair->base.state = IBV_QPS_ERR;
  for (const uint64_t id : pair->receives)
    complete(pair->base.recv_cq, doneOf(pair, id, IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV, 0));
  pair->receives.clear();
}

const Region* find(uint32_t key, const ibv_context* context, uint64_t address, size_t bytes, int right) {
  const auto at = world().regions.find(key);
  if (at == world().regions.end()) return nullptr;
  const Region* const region = at->second;
  const bool may = region->base.context == context && (region->access & right) == right;
  return may && region->holds(address, bytes) ? region : nullptr;
}

/// The other end of a pair, if its port is up.
Pair* peerOf(const Pair& pair) {
  const auto at = world().pairs.find(pair.peer);
  if (at == world().pairs.end()) return nullptr;
  Pair* const peer = at->second;
  const bool takes = peer->base.state == IBV_QPS_RTR || peer->base.state == IBV_QPS_RTS;
  const bool addressed = std::memcmp(&peer->device->gid, &pair.peerGid, sizeof pair.peerGid) == 0;
  return takes && addressed && peer->device->fault != Fault::PortDown ? peer : nullptr;
}

ibv_wc_status carryOut(Pair* pair, const ibv_send_wr& work) {
  size_t bytes = 0;
  const bool reads = work.opcode == IBV_WR_RDMA_READ;
  for (int i = 0; i < work.num_sge; ++i) {
    const ibv_sge& part = work.sg_list[i];
    bytes += part.length;
    if ((work.send_flags & IBV_SEND_INLINE) != 0) continue;
    if (!find(part.lkey, pair->base.context, part.addr, part.length, reads ? IBV_ACCESS_LOCAL_WRITE : 0))
      return IBV_WC_LOC_PROT_ERR;
  }
  Pair* const peer = peerOf(*pair);
  if (peer == nullptr) return IBV_WC_RETRY_EXC_ERR;
  uint64_t there = work.wr.rdma.remote_addr;
  const int right = reads ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
  if (bytes > 0 && !find(work.wr.rdma.rkey, peer->base.context, there, bytes, right)) return IBV_WC_REM_ACCESS_ERR;
  const bool tells = work.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  if (tells && peer->receives.empty()) return IBV_WC_RNR_RETRY_EXC_ERR;
  for (int i = 0; i < work.num_sge; ++i) {
    const ibv_sge& part = work.sg_list[i];
    move(reads ? part.addr : there, reads ? there : part.addr, part.length);
    there += part.length;
  }
  pair->device->carried += bytes;
  if (!tells) return IBV_WC_SUCCESS;
  Done done = doneOf(peer, peer->receives.front(), IBV_WC_SUCCESS, IBV_WC_RECV_RDMA_WITH_IMM, 0);
  peer->receives.pop_front();
  done.wc.imm_data = work.imm_data;
  done.wc.byte_len = static_cast<uint32_t>(bytes);
  complete(peer->base.recv_cq, done);
  return IBV_WC_SUCCESS;
}

void post(Pair* pair, const ibv_send_wr& work) {
  const uint64_t operation = ++pair->posted;
  if (pair->base.state == IBV_QPS_ERR)
    return complete(pair->base.send_cq, doneOf(pair, work.wr_id, IBV_WC_WR_FLUSH_ERR, IBV_WC_RDMA_WRITE, operation));
  Device& device = *pair->device;
  if (device.fault == Fault::PortDown) return;
  const bool fails = device.fault != Fault::None && (device.passes == 0 || device.passes-- == 0);
  ibv_wc_status status = fails && device.fault == Fault::Lost ? IBV_WC_SUCCESS : carryOut(pair, work);
  if (fails && status == IBV_WC_SUCCESS) status = IBV_WC_RETRY_EXC_ERR;
  const auto opcode = work.opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE;
  if (status != IBV_WC_SUCCESS || (work.send_flags & IBV_SEND_SIGNALED) != 0)
    complete(pair->base.send_cq, doneOf(pair, work.wr_id, status, opcode, operation));
  if (status != IBV_WC_SUCCESS) toError(pair);
}

int postSend(ibv_qp* qp, ibv_send_wr* work, ibv_send_wr** bad) {
  const std::lock_guard lock(world().mutex);
  auto* const pair = reinterpret_cast<Pair*>(qp);
  for (; work != nullptr; work = work->next) {
    *bad = work;
    if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_ERR) return EINVAL;
    if (pair->posted - pair->reaped >= pair->most.max_send_wr) return ENOMEM;
    if (work->num_sge > static_cast<int>(pair->most.max_send_sge)) return EINVAL;
    size_t bytes = 0;
    for (int i = 0; i < work->num_sge; ++i) bytes += work->sg_list[i].length;
    if ((work->send_flags & IBV_SEND_INLINE) != 0 && bytes > pair->most.max_inline_data) return EINVAL;
    post(pair, *work);
  }
  return 0;
}

int postReceive(ibv_qp* qp, ibv_recv_wr* work, ibv_recv_wr** bad) {
  const std::lock_guard lock(world().mutex);
  auto* const pair = reinterpret_cast<Pair*>(qp);
  for (; work != nullptr; work = work->next) {
    *bad = work;
    if (qp->state == IBV_QPS_ERR) {
      complete(qp->recv_cq, doneOf(pair, work->wr_id, IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV, 0));
      continue;
    }
    if (pair->receives.size() >= pair->most.max_recv_wr) return ENOMEM;
    pair->receives.push_back(work->wr_id);
  }
  return 0;
}

int pollQueue(ibv_cq* cq, int most, ibv_wc* into) {
  const std::lock_guard lock(world().mutex);
  auto& done = reinterpret_cast<Queue*>(cq)->done;
  int count = 0;
  for (; count < most && !done.empty(); ++count, done.pop_front()) {
    into[count] = done.front().wc;
    if (done.front().operation != 0) done.front().pair->reaped = done.front().operation;
  }
  return count;
}

int armQueue(ibv_cq* cq, int) {
  const std::lock_guard lock(world().mutex);
  reinterpret_cast<Queue*>(cq)->armed = true;
  return 0;
}

/// Without DMA-BUF memory of devices is unknown to the kernel.
ibv_mr* registerRegion(ibv_pd* pd, void* address, size_t bytes, int access, bool dmaBuf) {
  const bool onDevice = cuda().isDeviceMemory != nullptr && cuda().isDeviceMemory(reinterpret_cast<uint64_t>(address));
  if (onDevice && !dmaBuf) {
    errno = EFAULT;
    return nullptr;
  }
  const std::lock_guard lock(world().mutex);
  auto* const region = new Region{.base = {}, .access = access, .dmaBuf = dmaBuf};
  region->base.context = pd->context;
  region->base.pd = pd;
  region->base.addr = address;
  region->base.length = bytes;
  region->base.lkey = region->base.rkey = ++world().lastKey;
  world().regions[region->base.rkey] = region;
  return &region->base;
}

}  // namespace

EXPORTED void fakeVerbsFail(const char* name, Fault fault, unsigned after) {
  const std::lock_guard lock(world().mutex);
  for (Device& device : world().devices) {
    if (std::strcmp(device.base.name, name) != 0) continue;
    const bool wasDown = device.fault == Fault::PortDown, isDown = fault == Fault::PortDown;
    device.fault = fault;
    device.passes = after;
    for (Context* context : world().contexts) {
      if (isDown == wasDown || context->device != &device) continue;
      context->events.push_back({isDown ? IBV_EVENT_PORT_ERR : IBV_EVENT_PORT_ACTIVE});
      signal(context->base.async_fd);
    }
    return;
  }
  die("no such device");
}

EXPORTED unsigned long fakeVerbsCarried(const char* name) {
  const std::lock_guard lock(world().mutex);
  for (const Device& device : world().devices) {
    if (std::strcmp(device.base.name, name) == 0) return device.carried;
  }
  die("no such device");
}

EXPORTED int fakeVerbsCountDmaBufs() {
  const std::lock_guard lock(world().mutex);
  int count = 0;
  for (const auto& [key, region] : world().regions) count += region->dmaBuf ? 1 : 0;
  return count;
}

EXPORTED ibv_device** ibv_get_device_list(int* count) {
  auto** const list = static_cast<ibv_device**>(std::calloc(kDevices + 1, sizeof(ibv_device*)));
  for (size_t i = 0; i < kDevices; ++i) list[i] = &world().devices[i].base;
  *count = kDevices;
  return list;
}
EXPORTED void ibv_free_device_list(ibv_device** list) { std::free(list); }
EXPORTED const char* ibv_get_device_name(ibv_device* device) { return device->name; }

EXPORTED ibv_context* ibv_open_device(ibv_device* device) {
  const std::lock_guard lock(world().mutex);
  auto* const context = new Context{.base = {}, .device = reinterpret_cast<Device*>(device), .events = {}};
  context->base.device = device;
  context->base.ops.poll_cq = pollQueue;
  context->base.ops.req_notify_cq = armQueue;
  context->base.ops.post_send = postSend;
  context->base.ops.post_recv = postReceive;
  context->base.async_fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  world().contexts.push_back(context);
  return &context->base;
}
EXPORTED int ibv_close_device(ibv_context* context) {
  const std::lock_guard lock(world().mutex);
  std::erase(world().contexts, reinterpret_cast<Context*>(context));
  close(context->async_fd);
  delete reinterpret_cast<Context*>(context);
  return 0;
}
EXPORTED int ibv_query_device(ibv_context*, ibv_device_attr* attributes) {
  *attributes = {};
  attributes->phys_port_cnt = 1;
  attributes->max_cqe = kMostEntries;
  attributes->max_qp_rd_atom = attributes->max_qp_init_rd_atom = 16;
  return 0;
}
EXPORTED int ibv_query_port(ibv_context* context, uint8_t, _compat_ibv_port_attr* into) {
  const std::lock_guard lock(world().mutex);
  auto* const port = reinterpret_cast<ibv_port_attr*>(into);
  const bool up = reinterpret_cast<Context*>(context)->device->fault != Fault::PortDown;
  port->state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  port->max_mtu = port->active_mtu = IBV_MTU_4096;
  port->gid_tbl_len = port->pkey_tbl_len = 1;
  port->link_layer = IBV_LINK_LAYER_ETHERNET;
  return 0;
}
EXPORTED int ibv_query_gid(ibv_context* context, uint8_t, int, ibv_gid* gid) {
  *gid = reinterpret_cast<Context*>(context)->device->gid;
  return 0;
}
EXPORTED ibv_pd* ibv_alloc_pd(ibv_context* context) {
  auto* const pd = new ibv_pd{};
  pd->context = context;
  return pd;
}
EXPORTED int ibv_dealloc_pd(ibv_pd* pd) {
  delete pd;
  return 0;
}

EXPORTED ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t bytes, int access) {
  return registerRegion(pd, address, bytes, access, false);
}
EXPORTED ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t bytes, uint64_t, unsigned access) {
  return registerRegion(pd, address, bytes, static_cast<int>(access), false);
}
// Memory of the CUDA driver of the tests has the same address for everyone.
EXPORTED ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t bytes, uint64_t address, int fd, int access) {
  constexpr uint64_t kPage = 4096;
  struct stat file {};
  const bool there = fstat(fd, &file) == 0 && offset + bytes <= static_cast<uint64_t>(file.st_size);
  if (!there || offset % kPage != address % kPage) {
    errno = EINVAL;
    return nullptr;
  }
  return registerRegion(pd, reinterpret_cast<void*>(address), bytes, access, true);
}
EXPORTED int ibv_dereg_mr(ibv_mr* region) {
  const std::lock_guard lock(world().mutex);
  world().regions.erase(region->rkey);
  delete reinterpret_cast<Region*>(region);
  return 0;
}

EXPORTED ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  auto* const channel = new Channel;
  channel->base.context = context;
  channel->base.fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  return &channel->base;
}
EXPORTED int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  close(channel->fd);
  delete reinterpret_cast<Channel*>(channel);
  return 0;
}
EXPORTED ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* own, ibv_comp_channel* channel, int) {
  auto* const queue = new Queue;
  queue->base.context = context;
  queue->base.channel = channel;
  queue->base.cq_context = own;
  queue->base.cqe = entries;
  return &queue->base;
}
EXPORTED int ibv_resize_cq(ibv_cq* queue, int entries) {
  const std::lock_guard lock(world().mutex);
  queue->cqe = entries;
  return 0;
}
EXPORTED int ibv_destroy_cq(ibv_cq* queue) {
  delete reinterpret_cast<Queue*>(queue);
  return 0;
}
EXPORTED int ibv_get_cq_event(ibv_comp_channel* of, ibv_cq** queue, void** own) {
  if (!take(of->fd)) return -1;
  const std::lock_guard lock(world().mutex);
  auto* const channel = reinterpret_cast<Channel*>(of);
  *queue = &channel->events.front()->base;
  *own = (*queue)->cq_context;
  channel->events.pop_front();
  return 0;
}
EXPORTED void ibv_ack_cq_events(ibv_cq*, unsigned) {}
EXPORTED int ibv_get_async_event(ibv_context* of, ibv_async_event* event) {
  if (!take(of->async_fd)) return -1;
  const std::lock_guard lock(world().mutex);
  auto* const context = reinterpret_cast<Context*>(of);
  event->event_type = context->events.front().type;
  event->element.port_num = 1;
  context->events.pop_front();
  return 0;
}
EXPORTED void ibv_ack_async_event(ibv_async_event*) {}

EXPORTED ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* wanted) {
  if (wanted->cap.max_inline_data > kMostInline) {
    errno = EINVAL;
    return nullptr;
  }
  const std::lock_guard lock(world().mutex);
  auto* const pair = new Pair;
  pair->device = reinterpret_cast<Context*>(pd->context)->device;
  pair->most = wanted->cap;
  pair->base.context = pd->context;
  pair->base.pd = pd;
  pair->base.send_cq = wanted->send_cq;
  pair->base.recv_cq = wanted->recv_cq;
  pair->base.qp_num = ++world().lastNumber;
  world().pairs[pair->base.qp_num] = pair;
  return &pair->base;
}
EXPORTED int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* to, int what) {
  const std::lock_guard lock(world().mutex);
  auto* const pair = reinterpret_cast<Pair*>(qp);
  if ((what & IBV_QP_DEST_QPN) != 0) pair->peer = to->dest_qp_num;
  if ((what & IBV_QP_AV) != 0) pair->peerGid = to->ah_attr.grh.dgid;
  if ((what & IBV_QP_STATE) == 0) return EINVAL;
  const bool inOrder = to->qp_state == IBV_QPS_ERR || to->qp_state == qp->state + 1;
  if (!inOrder) return EINVAL;
  if (to->qp_state == IBV_QPS_ERR) {
    toError(pair);
  } else {
    qp->state = to->qp_state;
  }
  return 0;
}
// What it has completed goes with it.
EXPORTED int ibv_destroy_qp(ibv_qp* qp) {
  const std::lock_guard lock(world().mutex);
  auto* const pair = reinterpret_cast<Pair*>(qp);
  for (ibv_cq* cq : {qp->send_cq, qp->recv_cq})
    std::erase_if(reinterpret_cast<Queue*>(cq)->done, [pair](const Done& done) { return done.pair == pair; });
  world().pairs.erase(qp->qp_num);
  delete pair;
  return 0;
}
EXPORTED const char* ibv_wc_status_str(ibv_wc_status status) {
  return status == IBV_WC_RETRY_EXC_ERR ? "transport retry counter exceeded" : "an error of the software adapter";
}
EXPORTED const char* ibv_event_type_str(ibv_event_type type) {
  return type == IBV_EVENT_PORT_ERR      ? "port error"
         : type == IBV_EVENT_PORT_ACTIVE ? "port active"
                                         : "an event of the software adapter";
}
EXPORTED int ibv_fork_init() { return 0; }
