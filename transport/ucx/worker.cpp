#include "transport/ucx/worker.hpp"

#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "src/base/file_limit.hpp"
#include "src/base/log.hpp"

namespace tutti::ucx {
namespace {

constexpr unsigned kApiMinor = 13;  // what we call is of this version
constexpr size_t kAlignment = 64;   // of payloads
constexpr int kMostArmings = 1000;  // while there is always something to do

std::string memoryKinds(uint64_t types) {
  constexpr std::pair<ucs_memory_type_t, const char*> kNames[] = {
      {UCS_MEMORY_TYPE_HOST, "host"}, {UCS_MEMORY_TYPE_CUDA, "cuda"}, {UCS_MEMORY_TYPE_ROCM, "rocm"}};
  std::string kinds;
  for (const auto& [type, name] : kNames) {
    if ((types & (uint64_t{1} << type)) != 0) kinds += cat(kinds.empty() ? "" : ", ", name);
  }
  return kinds;
}

/// The transports and devices of an endpoint, from lines as "lane[0]:  0:tcp/lo.0 md[0] ...".
std::string pathIn(std::string_view text) {
  std::string path;
  for (const std::string& line : split(text, '\n')) {
    const size_t lane = line.find("lane[");
    const size_t colon = lane == std::string::npos ? lane : line.find_first_of("0123456789", line.find(':', lane));
    const size_t name = colon == std::string::npos ? colon : line.find(':', colon);
    if (name == std::string::npos) continue;
    std::string one = line.substr(name + 1, line.find(' ', name) - name - 1);
    one = one.substr(0, one.rfind('.'));
    if (!one.empty() && path.find(one) == std::string::npos) path += cat(path.empty() ? "" : ", ", one);
  }
  return path;
}

std::string pathOf(const Library& api, ucp_ep_h endpoint) {
  char* text = nullptr;
  size_t bytes = 0;
  FILE* const into = open_memstream(&text, &bytes);
  if (into == nullptr) return "";
  api.epPrintInfo(endpoint, into);
  std::fclose(into);
  std::string path = pathIn(std::string_view(text, bytes));
  std::free(text);
  return path;
}

}  // namespace

Result<std::shared_ptr<Worker>> Worker::create(const Options& options) {
  TUTTI_ASSIGN(const Library* api, library());
  TUTTI_ASSIGN(std::shared_ptr<FdSleeper> sleeper, FdSleeper::create());
  std::shared_ptr<Worker> made(new Worker(*api, std::move(sleeper), options.closeMs));
  TUTTI_TRY(made->open(options));
  return made;
}

Status Worker::open(const Options& options) {
  Listening words;
  TUTTI_TRY(openContext(options, &words));
  TUTTI_TRY(openWorker(&words));
  return sleeper_->add(wakeUps_);
}

Status Worker::openContext(const Options& options, Listening* words) {
  const auto refused = [&](const char* what, ucs_status_t status) {
    return invalidUsage(ErrorCode::UcxStart, "UCX ", api_.version, " ", what, ": ", words->complaint(status),
                        "; UCX_TLS and UCX_NET_DEVICES say what it may use");
  };
  ucp_config_t* config = nullptr;
  ucs_status_t status = api_.configRead(nullptr, nullptr, &config);
  if (status != UCS_OK) return refused("cannot read its variables", status);
  for (const auto& [name, value] : options.settings) {
    if (status == UCS_OK) status = api_.configModify(config, name.c_str(), value.c_str());
  }
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.mt_workers_shared = 1;  // memory is registered by any thread
  if (status == UCS_OK) status = api_.initVersion(1, kApiMinor, &params, config, &context_);
  api_.configRelease(config);
  if (status != UCS_OK) return refused("cannot be used", status);
  ucp_context_attr_t attributes{};
  attributes.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  (void)api_.contextQuery(context_, &attributes);
  memoryTypes_ = attributes.memory_types;
  description_ = cat("UCX ", api_.version, ", for memory of ", memoryKinds(attributes.memory_types));
  return {};
}

Status Worker::openWorker(Listening* words) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_AM_ALIGNMENT;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  params.am_alignment = kAlignment;
  const FileLimitAsError noSignal;  // it writes files to share memory by
  ucs_status_t status = api_.workerCreate(context_, &params, &worker_);
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kMessageId;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA;
  handler.arg = this;
  handler.cb = [](void* worker, const void* header, size_t headerBytes, void* data, size_t bytes,
                  const ucp_am_recv_param_t* how) {
    Header copy;
    if (headerBytes != kHeaderBytes) return UCS_OK;
    std::memcpy(&copy, header, kHeaderBytes);
    const bool lent = (how->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    return static_cast<Worker*>(worker)->tell(copy, data, bytes, lent) ? UCS_INPROGRESS : UCS_OK;
  };
  if (status == UCS_OK) status = api_.setAmHandler(worker_, &handler);
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  if (status == UCS_OK) status = api_.workerGetEfd(worker_, &wakeUps_);
  if (status == UCS_OK) status = api_.workerGetAddress(worker_, &address, &bytes);
  if (status != UCS_OK)
    return invalidUsage(ErrorCode::UcxStart, "UCX ", api_.version, " gives no worker: ", words->complaint(status));
  address_.assign(reinterpret_cast<const char*>(address), bytes);
  api_.workerReleaseAddress(worker_, address);
  return {};
}

/// UCX's, which nobody uses any more.
struct Worker::LeftBehind {
  ucp_context_h context;
  ucp_worker_h worker;
  std::map<std::string, std::shared_ptr<Link>> links;
  std::vector<std::shared_ptr<void>> memory;
};

// Endpoints are not closed one by one: UCX 1.13 ends the process over a message of its own that waits in one that comes
// up, or has just come up.  A worker with one that has not come up cannot be ended at all.
Worker::~Worker() {
  if (wakeUps_ >= 0) sleeper_->remove(wakeUps_);
  const auto isUp = [](const auto& entry) { return entry.second->isUp; };
  if (!std::ranges::all_of(links_, isUp)) {
    static std::mutex mutex;
    static auto* const all = new std::vector<LeftBehind>;
    TUTTI_DEBUG("ucx", "a worker is left behind, as one of its connections has not come up");
    const std::lock_guard lock(mutex);
    all->push_back({context_, worker_, std::move(links_), std::move(kept_)});
    return;
  }
  const Listening quiet;
  for (ucs_status_ptr_t closing : closings_) api_.requestFree(closing);
  if (worker_ != nullptr) api_.workerDestroy(worker_);
  if (context_ != nullptr) api_.cleanup(context_);
}

uint32_t Worker::add(Listener* listener) {
  listeners_.push_back({listener, std::random_device{}()});
  return static_cast<uint32_t>(listeners_.size() - 1);
}

bool Worker::tell(const Header& header, void* payload, size_t bytes, bool lent) {
  const bool known = header.connection < listeners_.size() && listeners_[header.connection].listener != nullptr &&
                     listeners_[header.connection].key == header.key;
  return known && listeners_[header.connection].listener->came(header, payload, bytes, lent);
}

ucs_status_t Worker::createEndpoint(Link* link, const std::string& address, ucp_err_handling_mode_t mode) {
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = mode;
  params.err_handler.arg = link;
  params.err_handler.cb = [](void* failed, ucp_ep_h, ucs_status_t status) {
    const auto api = library();
    static_cast<Link*>(failed)->failure = (*api)->statusText(status);
  };
  return api_.epCreate(worker_, &params, &link->endpoint);
}

// UCX's shared memory does not tell the end of a peer.  It is taken where there is nothing else; then the stream alone
// tells, and messages leave from memory of ours.
Result<std::shared_ptr<Link>> Worker::link(const std::string& address) {
  const auto known = links_.find(address);
  if (known != links_.end() && known->second->failure.empty() && known->second->endpoint != nullptr)
    return known->second;
  Listening words;
  auto link = std::make_shared<Link>();
  ucs_status_t status = createEndpoint(link.get(), address, UCP_ERR_HANDLING_MODE_PEER);
  link->lends = status == UCS_OK;
  if (status == UCS_ERR_UNREACHABLE) {
    (void)words.complaint(status);
    status = createEndpoint(link.get(), address, UCP_ERR_HANDLING_MODE_NONE);
  }
  if (status != UCS_OK) {
    return systemError(ErrorCode::UcxRefused, words.complaint(status),
                       "; UCX_TLS and UCX_NET_DEVICES, on both ranks, say what UCX may use");
  }
  link->path = pathOf(api_, link->endpoint);
  if (link->path.empty()) link->path = cat("UCX ", api_.version);
  if (known != links_.end()) keep(known->second);  // UCX may still call its handler
  links_[address] = link;
  return link;
}

void Worker::close(Link* link) {
  if (link->endpoint == nullptr || !link->lends || !link->isUp) return;
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  params.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const ucs_status_ptr_t closing = api_.epClose(link->endpoint, &params);
  link->endpoint = nullptr;
  if (UCS_PTR_IS_PTR(closing)) closings_.push_back(closing);
}

bool Worker::poll() {
  const unsigned some = api_.workerProgress(worker_);
  happened_ += some;
  return some > 0;
}

bool Worker::progress() {
  const std::lock_guard lock(mutex_);
  const bool some = poll();
  for (Served* endpoint : served_) endpoint->goOn(some);
  return some;
}

Result<ucp_mem_h> Worker::registerMemory(const Memory& memory, ucs_memory_type_t type) {
  Listening words;
  ucp_mem_map_params_t params{};
  params.field_mask =
      UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
  params.address = memory.base;
  params.length = memory.bytes;
  params.memory_type = type;
  ucp_mem_h handle = nullptr;
  const ucs_status_t status = api_.memMap(context_, &params, &handle);
  if (status == UCS_OK) return handle;
  return systemError(ErrorCode::UcxRefused, "UCX ", api_.version, " cannot register ", memory.bytes,
                     " bytes of memory: ", words.complaint(status),
                     "; a limit of locked memory (ulimit -l) may be the reason");
}

// The caller looks at all endpoints once more after this: what that finds ends the sleep.
void Worker::prepare() {
  sleeper_->prepare();
  const std::lock_guard lock(mutex_);
  ucs_status_t status = UCS_ERR_BUSY;
  for (int i = 0; i < kMostArmings && status == UCS_ERR_BUSY; ++i) {
    while (poll()) {
    }
    status = api_.workerArm(worker_);
  }
  armed_ = status == UCS_OK;
  for (Served* endpoint : served_) endpoint->beforeSleep();
  happenedBefore_ = happened_;
}

// The sleeper wakes by edges; what was there before is seen by the look here.
void Worker::sleep(int us) {
  {
    const std::lock_guard lock(mutex_);
    if (!armed_ || happened_ != happenedBefore_) return;
  }
  pollfd wakeUps{wakeUps_, POLLIN, 0};
  if (::poll(&wakeUps, 1, 0) == 0) sleeper_->sleep(us);
}

}  // namespace tutti::ucx
