// The channels of CUDA devices over other transports' channels, on the driver for tests, whose memory the host reads.
#include <array>
#include <utility>

#include "src/base/assert.hpp"
#include "tests/conformance/harness.hpp"
#include "tests/support/gpu.hpp"
#include "transport/cuda/staged_channel.hpp"
#include "transport/cuda/stream_channel.hpp"

namespace tutti::conformance {
namespace {

constexpr size_t kSlotBytes = 4096;
constexpr uint32_t kSlots = 3;

/// Host channels of one end, its device and its stream.
struct DeviceEnd {
  std::unique_ptr<Channel> tokens, credits;
  std::shared_ptr<cuda::CudaDevice> device = *cuda::CudaDevice::open(0);
  cuda::StreamOps ops{device};
  cuda::Stream stream = nullptr;
  cuda::PinnedReserve reserve;
};

/// A channel as a host sees it: what it has enqueued is done before it says so.
class OnStream : public Channel {
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
    channel_.reset();
    end_->device->driver().cuStreamDestroy(end_->stream);
  }

  void stage(cuda::StagedChannel::Staging staging) {
    channel_ = std::make_unique<cuda::StagedChannel>(end_->ops, end_->tokens.get(), &end_->reserve, staging);
  }
  Status join(int peer, const cuda::InboxRoom& words) {
    const cuda::CudaScope scope(*end_->device);
    const cuda::HostPair hosts{end_->tokens.get(), end_->credits.get()};
    cuda::Lending lending;
    lending.peer = peer;
    TUTTI_ASSIGN(auto made, cuda::StreamChannel::create(end_->ops, hosts, lending, {kSlots, kSlotBytes}, words, {}, 1));
    streams_ = made.get();
    channel_ = std::move(made);
    return {};
  }

  size_t slotBytes() const override { return channel_->slotBytes(); }
  Result<bool> send(const std::byte* data, size_t bytes, const Fingerprint& call) override {
    return twice([&] { return channel_->send(data, bytes, call); });
  }
  Result<std::span<std::byte>> reserve() override {
    return settled([&] { return channel_->reserve(); });
  }
  Result<bool> commit(size_t bytes, const Fingerprint& call) override {
    return twice([&] { return channel_->commit(bytes, call); });
  }
  Result<const std::byte*> peek(const Expect& expect) override {
    return settled([&] { return channel_->peek(expect); });
  }
  void release() override {
    (void)settled([&]() -> Result<bool> {
      channel_->release();
      return true;
    });
  }
  Result<bool> receive(std::byte* dst, const Expect& expect) override {
    return settled([&] { return channel_->receive(dst, expect); });
  }
  void cancel() override {
    Channel::cancel();
    channel_->cancel();
  }
  std::optional<Fingerprint> pending() const override { return channel_->pending(); }
  Result<bool> progress() override {
    return settled([&] { return channel_->progress(); });
  }

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
    seen_ = channel_->seen();
    TUTTI_TRY(end_->ops.flush());
    TUTTI_CUDA(end_->device->driver(), cuStreamSynchronize(end_->stream));
    return result;
  }
  std::unique_ptr<DeviceEnd> end_;
  std::unique_ptr<Channel> channel_;
  cuda::StreamChannel* streams_ = nullptr;
};

enum class CudaChannel { Staged, Straight, Streams };

class CudaHarness : public Harness {
 public:
  CudaHarness(CudaChannel kind, std::unique_ptr<Harness> host) : kind_(kind), host_(std::move(host)) {}

  Result<Pair> open(int lane) override {
    TUTTI_ASSIGN(Pair tokens, host_->open(lane));
    Pair credits;
    if (kind_ == CudaChannel::Streams) {
      TUTTI_ASSIGN(credits, host_->open(lane + kMostLanes));
    }
    Pair pair;
    TUTTI_ASSIGN(pair.a, channel(0, std::move(tokens.a), std::move(credits.a)));
    TUTTI_ASSIGN(pair.b, channel(1, std::move(tokens.b), std::move(credits.b)));
    for (int i = 0; i < kRoundsToMeet; ++i) {
      host_->pump();
      for (Channel* end : {pair.a.get(), pair.b.get()}) TUTTI_TRY(asStatus(end->progress()));
    }
    return pair;
  }
  void pump() override { host_->pump(); }
  Sleeper* sleeper(int rank) override { return kind_ != CudaChannel::Streams ? host_->sleeper(rank) : nullptr; }
  bool threads() const override { return host_->threads(); }
  bool noticesClose() const override { return host_->noticesClose(); }

 private:
  static constexpr int kMostLanes = 2;
  static constexpr int kRoundsToMeet = 1000;

  Result<std::unique_ptr<Channel>> channel(int rank, std::unique_ptr<Channel> tokens,
                                           std::unique_ptr<Channel> credits) {
    auto end = std::make_unique<DeviceEnd>();
    end->tokens = std::move(tokens);
    end->credits = std::move(credits);
    auto made = std::make_unique<OnStream>(std::move(end));
    using Staging = cuda::StagedChannel::Staging;
    if (kind_ != CudaChannel::Streams) {
      made->stage(kind_ == CudaChannel::Straight ? Staging::None : Staging::Pinned);
    } else {
      TUTTI_ASSIGN(const cuda::InboxRoom words, ownWords());
      TUTTI_TRY(made->join(1 - rank, words));
    }
    return std::unique_ptr<Channel>(std::move(made));
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

  CudaChannel kind_;
  std::unique_ptr<Harness> host_;
};

void addRows(CudaChannel kind, const std::string& name, std::vector<Row>* rows) {
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
  addRows(CudaChannel::Staged, "cuda, staged over ", &rows);
  addRows(CudaChannel::Straight, "cuda, without staging over ", &rows);
  addRows(CudaChannel::Streams, "cuda, streams over ", &rows);
  return rows;
}

}  // namespace tutti::conformance
