// Any MPI, through its C calls; compiled with that MPI's own mpicc.
#include <mpi.h>

#include "perf/compare/adapter.hpp"

namespace tutti::compare {
namespace {

void expect(int result) { require(result == MPI_SUCCESS, "an MPI call failed"); }

class Mpi final : public Adapter {
 public:
  explicit Mpi(World&) {
    expect(MPI_Init(nullptr, nullptr));
    expect(MPI_Comm_rank(MPI_COMM_WORLD, &rank_));
    expect(MPI_Comm_size(MPI_COMM_WORLD, &size_));
  }
  ~Mpi() override { static_cast<void>(MPI_Finalize()); }

  std::string library() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    expect(MPI_Get_library_version(text, &length));
    std::string version(text, static_cast<size_t>(length));
    for (char& c : version) {
      if (c == '\t') c = ' ';
    }
    return version.substr(0, version.find_first_of(",\n"));
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  bool supports(Op, Type type) const override { return type == Type::Float; }

  void prepare(const Call& call) override {
    require(call.count * static_cast<size_t>(size_) <= 0x7fffffff, "too many elements for MPI's int");
    call_ = call;
    count_ = static_cast<int>(call.count);
    counts_.assign(static_cast<size_t>(size_), count_);
  }

  void run() override {
    const Call& c = call_;
    switch (c.op) {
      case Op::AllReduce: {
        const void* send = c.send == c.recv ? MPI_IN_PLACE : c.send;
        return expect(MPI_Allreduce(send, c.recv, count_, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
      }
      case Op::AllGather:
        return expect(MPI_Allgather(c.send, count_, MPI_FLOAT, c.recv, count_, MPI_FLOAT, MPI_COMM_WORLD));
      case Op::ReduceScatter: return reduceScatter();
      case Op::AllToAll:
        return expect(MPI_Alltoall(c.send, count_, MPI_FLOAT, c.recv, count_, MPI_FLOAT, MPI_COMM_WORLD));
      case Op::Broadcast:
        return expect(MPI_Bcast(rank_ == 0 ? const_cast<void*>(c.send) : c.recv, count_, MPI_FLOAT, 0, MPI_COMM_WORLD));
      case Op::Reduce: return expect(MPI_Reduce(c.send, c.recv, count_, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD));
      case Op::Barrier: return barrier();
      case Op::PingPong: return pingPong();
    }
  }

  void barrier() override { expect(MPI_Barrier(MPI_COMM_WORLD)); }

 private:
  // MPI_Reduce_scatter with equal counts does the same and is up to three times faster than MPI_Reduce_scatter_block
  // in Open MPI 4 for large messages; the block form is the faster one for small ones.
  void reduceScatter() {
    if (call_.count * sizeof(float) < kBlockFormBytes) {
      expect(MPI_Reduce_scatter_block(call_.send, call_.recv, count_, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
    } else {
      expect(MPI_Reduce_scatter(call_.send, call_.recv, counts_.data(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
    }
  }
  void pingPong() {
    const int peer = 1 - rank_;
    if (rank_ == 0) expect(MPI_Send(call_.send, count_, MPI_FLOAT, peer, 0, MPI_COMM_WORLD));
    if (rank_ < 2) expect(MPI_Recv(call_.recv, count_, MPI_FLOAT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (rank_ == 1) expect(MPI_Send(call_.send, count_, MPI_FLOAT, peer, 0, MPI_COMM_WORLD));
  }

  static constexpr size_t kBlockFormBytes = 4096;
  int rank_ = 0, size_ = 1, count_ = 0;
  std::vector<int> counts_;
  Call call_;
};

}  // namespace

std::unique_ptr<Adapter> makeAdapter(World& world) { return std::make_unique<Mpi>(world); }

}  // namespace tutti::compare
