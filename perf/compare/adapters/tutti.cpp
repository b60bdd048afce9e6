// Tutti through tutti.h.
#include "tutti/tutti.h"

#include <cstring>
#include <map>
#include <set>

#include "perf/compare/adapter.hpp"

namespace tutti::compare {
namespace {

class Tutti final : public Adapter {
 public:
  explicit Tutti(World& world) : rank_(world.rank()), size_(world.size()) {
    for (tuttiComm_t* comm : {&plain_, &own_}) join(world, comm);
    comm_ = plain_;
  }
  ~Tutti() override {
    for (tuttiComm_t comm : {own_, plain_}) static_cast<void>(tuttiCommDestroy(comm));
  }

  std::string library() const override {
    int version = 0;
    expect(tuttiGetVersion(&version), "tuttiGetVersion");
    return "Tutti " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
           std::to_string(version % 100);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  bool supports(Op, Type) const override { return true; }

  void* allocate(size_t bytes) override {
    void* memory = nullptr;
    expect(tuttiMemAlloc(&memory, bytes), "tuttiMemAlloc");
    allocated_.insert(memory);
    return memory;
  }
  void release(void* memory) override {
    allocated_.erase(memory);
    expect(tuttiMemFree(memory), "tuttiMemFree");
  }

  bool adopt(void* memory, size_t bytes) override {
    void* handle = nullptr;
    expect(tuttiCommRegister(own_, memory, bytes, &handle), "tuttiCommRegister");
    adopted_[memory] = handle;
    return true;
  }
  void giveBack(void* memory) override {
    expect(tuttiCommDeregister(own_, adopted_.at(memory)), "tuttiCommDeregister");
    adopted_.erase(memory);
  }

  void prepare(const Call& call) override {
    call_ = call;
    comm_ = allocated_.contains(call.send) || adopted_.contains(call.send) ? own_ : plain_;
    type_ = call.type == Type::Float ? tuttiFloat32 : tuttiBfloat16;
  }

  void run() override {
    const Call& c = call_;
    switch (c.op) {
      case Op::AllReduce: return expect(tuttiAllReduce(c.send, c.recv, c.count, type_, tuttiSum, comm_, nullptr));
      case Op::AllGather: return expect(tuttiAllGather(c.send, c.recv, c.count, type_, comm_, nullptr));
      case Op::ReduceScatter:
        return expect(tuttiReduceScatter(c.send, c.recv, c.count, type_, tuttiSum, comm_, nullptr));
      case Op::AllToAll: return expect(tuttiAllToAll(c.send, c.recv, c.count, type_, comm_, nullptr));
      case Op::Broadcast: {
        // In place at the root, as MPI's one buffer is: nobody copies the root's data to itself.
        void* recv = rank_ == 0 ? const_cast<void*>(c.send) : c.recv;
        return expect(tuttiBroadcast(c.send, recv, c.count, type_, 0, comm_, nullptr));
      }
      case Op::Reduce: return expect(tuttiReduce(c.send, c.recv, c.count, type_, tuttiSum, 0, comm_, nullptr));
      case Op::Barrier: return barrier();
      case Op::PingPong: return pingPong();
    }
  }

  void barrier() override { expect(tuttiBarrier(comm_, nullptr)); }

 private:
  void join(World& world, tuttiComm_t* comm) {
    tuttiUniqueId id = {};
    if (rank_ == 0) expect(tuttiGetUniqueId(&id), "tuttiGetUniqueId");
    const std::string first = world.gather(std::string(id.internal, sizeof id.internal)).at(0);
    std::memcpy(id.internal, first.data(), sizeof id.internal);
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.device = TUTTI_DEVICE_HOST;
    expect(tuttiCommInitRankConfig(comm, size_, id, rank_, &config), "tuttiCommInitRankConfig");
  }
  void pingPong() {
    if (rank_ == 0) expect(tuttiSend(call_.send, call_.count, type_, 1, comm_, nullptr));
    if (rank_ < 2) expect(tuttiRecv(call_.recv, call_.count, type_, 1 - rank_, comm_, nullptr));
    if (rank_ == 1) expect(tuttiSend(call_.send, call_.count, type_, 0, comm_, nullptr));
  }
  void expect(tuttiResult_t result, const char* call = "a call") const {
    if (result != tuttiSuccess) throw std::runtime_error(std::string(call) + ": " + tuttiGetLastError(comm_));
  }

  int rank_, size_;
  // A program has its data in one kind of memory, and a communicator learns from the calls of one program.
  tuttiComm_t plain_ = nullptr, own_ = nullptr;
  tuttiComm_t comm_ = nullptr;  // that of call_
  std::set<const void*> allocated_;
  std::map<const void*, void*> adopted_;  // with their handles
  Call call_;
  tuttiDataType_t type_ = tuttiFloat32;
};

}  // namespace

std::unique_ptr<Adapter> makeAdapter(World& world) { return std::make_unique<Tutti>(world); }

}  // namespace tutti::compare
