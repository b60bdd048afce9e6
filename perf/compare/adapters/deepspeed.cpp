// The AllReduce of DeepSpeed's inference on one host: every rank copies its data into a buffer of shared memory that
// all map, and each sums a part.  It works in place; out of place it copies first, as DeepSpeed's own functional form
// does.  Ranks spin.
#include <sys/mman.h>
#include <torch/extension.h>
#include <unistd.h>

#include <cstring>

#include "perf/compare/adapter.hpp"

// Behind the tensors that it names.
#include <csrc/cpu/comm/shm.h>

namespace tutti::compare {
namespace {

class DeepSpeed final : public Adapter {
 public:
  explicit DeepSpeed(World& world) : rank_(world.rank()), size_(world.size()) {
    std::string run = world.gather(std::to_string(getpid())).at(0);
    std::string address = "compare";
    shm_initialize(size_, rank_, address.data(), run.data());
    world.gather("");  // all have mapped all
    const std::string name = "deepspeed_allreduce_buffer_" + std::to_string(getuid()) + "_" + address + "_" + run;
    static_cast<void>(shm_unlink((name + "_" + std::to_string(rank_)).c_str()));
  }

  std::string library() const override { return "DeepSpeed, shm.cpp"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  bool supports(Op op, Type) const override { return op == Op::AllReduce || op == Op::Barrier; }

  void prepare(const Call& call) override {
    call_ = call;
    bytes_ = call.count * bytesOf(call.type);
    require(bytes_ <= 0x7fffffff, "too many bytes for DeepSpeed's int");
  }

  void run() override {
    if (call_.op == Op::Barrier) return barrier();
    if (call_.recv != call_.send) std::memcpy(call_.recv, call_.send, bytes_);
    torch::Tensor data(call_.recv, call_.type == Type::Float ? c10::ScalarType::Float : c10::ScalarType::BFloat16);
    all_reduce_outer_loop(data, call_.count, static_cast<int>(bytes_));
  }

  void barrier() override {
    float nothing = 0;
    torch::Tensor data(&nothing, c10::ScalarType::Float);
    all_reduce_outer_loop(data, 1, sizeof nothing);
  }

 private:
  int rank_, size_;
  Call call_;
  size_t bytes_ = 0;
};

}  // namespace

std::unique_ptr<Adapter> makeAdapter(World& world) { return std::make_unique<DeepSpeed>(world); }

}  // namespace tutti::compare
