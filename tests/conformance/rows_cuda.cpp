// The endpoints of CUDA devices over other transports' endpoints, on the driver for tests, whose memory the host reads.
#include <array>
#include <utility>

#include "src/base/assert.hpp"
#include "tests/conformance/harness.hpp"
#include "tests/support/gpu.hpp"
#include "transport/cuda/staged_endpoint.hpp"
#include "transport/cuda/stream_endpoint.hpp"

namespace tutti::conformance {
namespace {

constexpr size_t kSlotBytes = 4096;
constexpr uint32_t kSlots = 3;

/// Host endpoints of one end, its device and its stream.
struct DeviceEnd {
  std::unique_ptr<Endpoint> tokens, credits;
  std::shared_ptr<cuda::CudaDevice> device = *cuda::CudaDevice::open(0);
  cuda::StreamOps ops{device};
  cuda::Stream stream = nullptr;
  cuda::PinnedReserve reserve;
};

/// An endpoint as a host sees it: what it has enqueued is done before it says so.
class OnStream : public Endpoint {
 public:
  explicit OnStream(std::unique_ptr<DeviceEnd> end) : end_(std::move(end)) {
    const cuda::CudaScope scope(*end_->device);
    end_->device->driver().cuStreamCreate(&end_->stream, cuda::kStreamNonBlocking);
    end_->ops.use(end_->stream);
  }
  ~OnStream() override {
    const cuda::CudaScope scope(*end_->device);
    if (streams_ != nullptr) {  // nobody else will let the stream go
      (void)streams_->letGo(end_->stream);
    }
    end_->device->driver().cuStreamSynchronize(end_->stream);
    endpoint_.reset();
    end_->device->driver().cuStreamDestroy(end_->stream);
  }

  void stage(cuda::StagedEndpoint::Staging staging) {
    endpoint_ = std::make_unique<cuda::StagedEndpoint>(end_->ops, end_->tokens.get(), &end_->reserve, staging,
                                                       cuda::StagedEndpoint::Adapter());
  }
  Status join(int peer, const cuda::InboxRoom& words) {
    const cuda::CudaScope scope(*end_->device);
    const cuda::HostPair hosts{end_->tokens.get(), end_->credits.get()};
    cuda::Lending lending;
    lending.peer = peer;
    TUTTI_ASSIGN(auto made,
                 cuda::StreamEndpoint::create(end_->ops, hosts, lending, {kSlots, kSlotBytes}, words, {}, 1));
    streams_ = made.get();
    endpoint_ = std::move(made);
    return {};
  }

  size_t slotBytes() const override { return endpoint_->slotBytes(); }
  Result<bool> send(const std::byte* data, size_t bytes, const Fingerprint& call) override {
    return twice([&] { return endpoint_->send(data, bytes, call); });
  }
  Result<std::span<std::byte>> reserve() override {
    return settled([&] { return endpoint_->reserve(); });
  }
  Result<bool> commit(size_t bytes, const Fingerprint& call) override {
    return twice([&] { return endpoint_->commit(bytes, call); });
  }
  Result<const std::byte*> peek(const Expect& expect) override {
    return settled([&] { return endpoint_->peek(expect); });
  }
  void release() override {
    (void)settled([&]() -> Result<bool> {
      endpoint_->release();
      return true;
    });
  }
  Result<bool> receive(std::byte* dst, const Expect& expect) override {
    return settled([&] { return endpoint_->receive(dst, expect); });
  }
  void cancel() override {
    Endpoint::cancel();
    endpoint_->cancel();
  }
  std::optional<Fingerprint> pending() const override { return endpoint_->pending(); }

 private:
  /// Once more when the copy has ended that the first has begun.
  template <class Call>
  Result<bool> twice(Call call) {
    TUTTI_ASSIGN(const bool done, settled(call));
    return done ? Result<bool>(true) : settled(call);
  }
  template <class Call>
  auto settled(Call call) -> decltype(call()) {
    const cuda::CudaScope scope(*end_->device);
    auto result = call();
    seen_ = endpoint_->seen();
    TUTTI_TRY(end_->ops.flush());
    TUTTI_CUDA(end_->device->driver(), cuStreamSynchronize(end_->stream));
    return result;
  }
  std::unique_ptr<DeviceEnd> end_;
  std::unique_ptr<Endpoint> endpoint_;
  cuda::StreamEndpoint* streams_ = nullptr;
};

enum class CudaEndpoint { Staged, Straight, Streams };

class CudaHarness : public Harness {
 public:
  CudaHarness(CudaEndpoint kind, std::unique_ptr<Harness> host) : kind_(kind), host_(std::move(host)) {}

  Result<Pair> open(int lane) override {
    TUTTI_ASSIGN(Pair tokens, host_->open(lane));
    Pair credits;
    if (kind_ == CudaEndpoint::Streams) {
      TUTTI_ASSIGN(credits, host_->open(lane + kMostLanes));
    }
    Pair pair;
    TUTTI_ASSIGN(pair.a, endpoint(0, std::move(tokens.a), std::move(credits.a)));
    TUTTI_ASSIGN(pair.b, endpoint(1, std::move(tokens.b), std::move(credits.b)));
    if (kind_ == CudaEndpoint::Streams) TUTTI_TRY(meet(pair));
    return pair;
  }
  void pump() override { host_->pump(); }
  Transport* transport(int rank) override { return host_->transport(rank); }
  Sleeper* sleeper(int rank) override { return kind_ != CudaEndpoint::Streams ? host_->sleeper(rank) : nullptr; }
  bool threads() const override { return host_->threads(); }
  bool noticesClose() const override { return host_->noticesClose(); }

 private:
  static constexpr int kMostLanes = 2;

  /// Before they send, streams tell each other where their memory is.
  Status meet(const Pair& pair) {
    const Deadline deadline = Deadline::inMs(10'000);
    for (size_t met = 0; met < 2;) {
      if (deadline.passed()) return timeoutError("the ends have not met");
      host_->pump();
      (void)host_->progress();
      met = 0;
      for (Endpoint* end : {pair.a.get(), pair.b.get()}) {
        TUTTI_ASSIGN(const std::span<std::byte> room, end->reserve());
        met += room.empty() ? 0 : 1;
      }
    }
    return {};
  }

  Result<std::unique_ptr<Endpoint>> endpoint(int rank, std::unique_ptr<Endpoint> tokens,
                                             std::unique_ptr<Endpoint> credits) {
    auto end = std::make_unique<DeviceEnd>();
    end->tokens = std::move(tokens);
    end->credits = std::move(credits);
    auto made = std::make_unique<OnStream>(std::move(end));
    using Staging = cuda::StagedEndpoint::Staging;
    if (kind_ != CudaEndpoint::Streams) {
      made->stage(kind_ == CudaEndpoint::Straight ? Staging::None : Staging::Pinned);
    } else {
      TUTTI_ASSIGN(const cuda::InboxRoom words, ownWords());
      TUTTI_TRY(made->join(1 - rank, words));
    }
    return std::unique_ptr<Endpoint>(std::move(made));
  }
  static Result<cuda::InboxRoom> ownWords() {
    const auto device = *cuda::CudaDevice::open(0);
    const cuda::CudaScope scope(*device);
    TUTTI_ASSIGN(const auto readers, cuda::Readers::create());
    const size_t bytes = cuda::InboxLayout{kSlots, kSlotBytes}.wordBytes();
    TUTTI_ASSIGN(cuda::OfferedMemory memory, cuda::OfferedMemory::allocate(device, bytes, readers));
    TUTTI_TRY(memory.zero());
    return cuda::InboxRoom{std::make_shared<cuda::OfferedMemory>(std::move(memory)), 0};
  }

  CudaEndpoint kind_;
  std::unique_ptr<Harness> host_;
};

void addRows(CudaEndpoint kind, const std::string& name, std::vector<Row>* rows) {
  for (const auto& hosts : {shmRows(), tcpRows(), simRows()}) {
    const Row& host = hosts.front();
    rows->push_back(
        {name + host.name, [kind, make = host.make] { return std::make_unique<CudaHarness>(kind, make()); }});
  }
}

}  // namespace

std::vector<Row> cudaRows() {
  std::vector<Row> rows;
  if (test::FakeCuda::get().reset == nullptr) return rows;
  addRows(CudaEndpoint::Staged, "cuda, staged over ", &rows);
  addRows(CudaEndpoint::Straight, "cuda, without staging over ", &rows);
  addRows(CudaEndpoint::Streams, "cuda, streams over ", &rows);
  return rows;
}

}  // namespace tutti::conformance
