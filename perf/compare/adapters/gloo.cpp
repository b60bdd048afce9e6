// Gloo in its options form, as PyTorch calls it.  COMPARE_GLOO is "TRANSPORT,ALGORITHM": tcp or uv, ring or bcube.
// COMPARE_INTERFACE: the network interface of every rank's host; unset: ranks are on one host.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#if __has_include(<gloo/transport/uv/device.h>)
#include <gloo/transport/uv/device.h>
#define COMPARE_GLOO_UV 1
#endif

#include <cstdlib>
#include <cstring>

#include "perf/compare/adapter.hpp"

namespace tutti::compare {
namespace {

std::shared_ptr<gloo::transport::Device> deviceOf(bool uv) {
#if COMPARE_GLOO_UV
  if (uv) return gloo::transport::uv::CreateDevice(gloo::transport::uv::attr("127.0.0.1"));
#endif
  require(!uv, "this Gloo was built without libuv");
  gloo::transport::tcp::attr attr;
  const char* interface = std::getenv("COMPARE_INTERFACE");
  if (interface != nullptr) attr.iface = interface;
  if (interface == nullptr) attr.hostname = "127.0.0.1";
  return gloo::transport::tcp::CreateDevice(attr);
}

void sum(void* out, const void* a, const void* b, size_t count) { gloo::sum<float>(out, a, b, count); }

class Gloo final : public Adapter {
 public:
  explicit Gloo(World& world) {
    const char* text = std::getenv("COMPARE_GLOO");
    const std::string setting = text == nullptr ? "tcp,ring" : text;
    uv_ = setting.rfind("uv", 0) == 0;
    bcube_ = setting.find("bcube") != std::string::npos;
    const char* folder = std::getenv("COMPARE_FOLDER");
    require(folder != nullptr, "COMPARE_FOLDER is not set");
    const auto store = std::make_shared<gloo::rendezvous::FileStore>(folder);
    auto device = deviceOf(uv_);
    const auto context = std::make_shared<gloo::rendezvous::Context>(world.rank(), world.size());
    context->setTimeout(std::chrono::minutes(2));
    context->connectFullMesh(store, device);
    context_ = context;
  }

  std::string library() const override { return uv_ ? "Gloo (uv)" : "Gloo (tcp)"; }
  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }
  bool supports(Op op, Type type) const override {
    // ReduceScatter exists only as one of the old algorithm objects, which need Buffers: the uv transport has none.
    if (uv_ && op == Op::ReduceScatter) return false;
    return type == Type::Float;
  }

  void prepare(const Call& call) override {
    call_ = call;
    // The bcube setting differs in the allreduce only.
    if (call.op == Op::ReduceScatter) {
      scratch_.assign(call.count * static_cast<size_t>(size()), 0);
      const std::vector<int> counts(static_cast<size_t>(size()), static_cast<int>(call.count));
      reduceScatter_ = std::make_unique<gloo::ReduceScatterHalvingDoubling<float>>(
          context_, std::vector<float*>{scratch_.data()}, static_cast<int>(scratch_.size()), counts);
    }
    if (call.op == Op::PingPong) {
      sent_ = context_->createUnboundBuffer(const_cast<void*>(call.send), call.count * sizeof(float));
      received_ = context_->createUnboundBuffer(call.recv, call.count * sizeof(float));
    }
  }

  void run() override {
    const size_t blocks = call_.count * static_cast<size_t>(size());
    auto* send = static_cast<float*>(const_cast<void*>(call_.send));
    auto* recv = static_cast<float*>(call_.recv);
    switch (call_.op) {
      case Op::AllReduce: {
        gloo::AllreduceOptions o(context_);
        o.setAlgorithm(bcube_ ? gloo::AllreduceOptions::Algorithm::BCUBE : gloo::AllreduceOptions::Algorithm::RING);
        if (send != recv) o.setInput(send, call_.count);
        o.setOutput(recv, call_.count);
        o.setReduceFunction(sum);
        return gloo::allreduce(o);
      }
      case Op::AllGather: {
        gloo::AllgatherOptions o(context_);
        o.setInput(send, call_.count);
        o.setOutput(recv, blocks);
        return gloo::allgather(o);
      }
      case Op::ReduceScatter:
        // In place by nature; the copies in and out are what a caller with two buffers must do.
        std::memcpy(scratch_.data(), send, scratch_.size() * sizeof(float));
        reduceScatter_->run();
        std::memcpy(recv, scratch_.data(), call_.count * sizeof(float));
        return;
      case Op::AllToAll: {
        gloo::AlltoallOptions o(context_);
        o.setInput(send, blocks);
        o.setOutput(recv, blocks);
        return gloo::alltoall(o);
      }
      case Op::Broadcast: {
        gloo::BroadcastOptions o(context_);
        o.setOutput(rank() == 0 ? send : recv, call_.count);
        o.setRoot(0);
        return gloo::broadcast(o);
      }
      case Op::Reduce: {
        gloo::ReduceOptions o(context_);
        o.setInput(send, call_.count);
        o.setOutput(recv, call_.count);
        o.setReduceFunction(sum);
        o.setRoot(0);
        return gloo::reduce(o);
      }
      case Op::Barrier: return barrier();
      case Op::PingPong: return pingPong();
    }
  }

  void finish() override {
    reduceScatter_.reset();
    sent_.reset();
    received_.reset();
  }

  void barrier() override {
    gloo::BarrierOptions o(context_);
    gloo::barrier(o);
  }

 private:
  void pingPong() {
    constexpr uint64_t kSlot = 0x7000;  // no collective's
    if (rank() > 1) return;
    received_->recv(1 - rank(), kSlot);
    if (rank() == 0) sent_->send(1, kSlot);
    received_->waitRecv();
    if (rank() == 1) sent_->send(0, kSlot);
    sent_->waitSend();
  }

  bool uv_ = false, bcube_ = false;
  std::shared_ptr<gloo::Context> context_;
  Call call_;
  std::vector<float> scratch_;
  std::unique_ptr<gloo::ReduceScatterHalvingDoubling<float>> reduceScatter_;
  std::unique_ptr<gloo::transport::UnboundBuffer> sent_, received_;
};

}  // namespace

std::unique_ptr<Adapter> makeAdapter(World& world) { return std::make_unique<Gloo>(world); }

}  // namespace tutti::compare
