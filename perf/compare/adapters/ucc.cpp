// UCC with persistent collectives, its fastest form: initialised once per cell, then posted and waited for.
#include <sched.h>
#include <ucc/api/ucc.h>

#include <cstdlib>
#include <cstring>

#include "perf/compare/adapter.hpp"

namespace tutti::compare {
namespace {

void expect(ucc_status_t status, const char* call) {
  if (status != UCC_OK) throw std::runtime_error(std::string(call) + ": " + ucc_status_string(status));
}

class Ucc final : public Adapter {
 public:
  explicit Ucc(World& world) : world_(world), rank_(world.rank()), size_(world.size()) {
    const char* yield = std::getenv("COMPARE_YIELD");
    yield_ = yield != nullptr && yield[0] == '1';
    openLibrary();
    openTeam();
    barrier_ = request(arguments(Op::Barrier));
  }

  ~Ucc() override {
    static_cast<void>(ucc_collective_finalize(barrier_));
    while (ucc_team_destroy(team_) == UCC_INPROGRESS) static_cast<void>(ucc_context_progress(context_));
    static_cast<void>(ucc_context_destroy(context_));
    static_cast<void>(ucc_finalize(library_));
  }

  std::string library() const override { return std::string("UCC ") + ucc_get_version_string(); }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  bool supports(Op op, Type type) const override {
    return op != Op::PingPong && (type == Type::Float || op == Op::AllReduce);
  }

  void prepare(const Call& call) override {
    const size_t n = static_cast<size_t>(size_);
    const ucc_datatype_t type = call.type == Type::Float ? UCC_DT_FLOAT32 : UCC_DT_BFLOAT16;
    const auto side = [&](const void* buffer, size_t count) {
      return ucc_coll_buffer_info_t{const_cast<void*>(buffer), count, type, UCC_MEMORY_TYPE_HOST};
    };
    ucc_coll_args_t a = arguments(call.op);
    const bool blocksOut = call.op == Op::AllGather || call.op == Op::AllToAll;
    const bool blocksIn = call.op == Op::ReduceScatter || call.op == Op::AllToAll;
    a.src.info = side(call.send, call.count * (blocksIn ? n : 1));
    a.dst.info = side(call.recv, call.count * (blocksOut ? n : 1));
    if (call.recv == call.send) a.flags |= UCC_COLL_ARGS_FLAG_IN_PLACE;
    if (call.op == Op::Broadcast) a.src.info.buffer = rank_ == 0 ? const_cast<void*>(call.send) : call.recv;
    call_ = request(a);
  }

  void run() override { complete(call_); }
  void finish() override { expect(ucc_collective_finalize(call_), "ucc_collective_finalize"); }
  void barrier() override { complete(barrier_); }

 private:
  static ucc_coll_args_t arguments(Op op) {
    ucc_coll_args_t a = {};
    a.mask = UCC_COLL_ARGS_FIELD_FLAGS;
    a.flags = UCC_COLL_ARGS_FLAG_PERSISTENT;
    a.op = UCC_OP_SUM;
    a.root = 0;
    switch (op) {
      case Op::AllReduce: a.coll_type = UCC_COLL_TYPE_ALLREDUCE; break;
      case Op::AllGather: a.coll_type = UCC_COLL_TYPE_ALLGATHER; break;
      case Op::ReduceScatter: a.coll_type = UCC_COLL_TYPE_REDUCE_SCATTER; break;
      case Op::AllToAll: a.coll_type = UCC_COLL_TYPE_ALLTOALL; break;
      case Op::Broadcast: a.coll_type = UCC_COLL_TYPE_BCAST; break;
      case Op::Reduce: a.coll_type = UCC_COLL_TYPE_REDUCE; break;
      case Op::Barrier:
      case Op::PingPong: a.coll_type = UCC_COLL_TYPE_BARRIER; break;
    }
    return a;
  }

  ucc_coll_req_h request(ucc_coll_args_t a) {
    ucc_coll_req_h made = nullptr;
    expect(ucc_collective_init(&a, &made, team_), "ucc_collective_init");
    return made;
  }

  void complete(ucc_coll_req_h request) {
    expect(ucc_collective_post(request), "ucc_collective_post");
    for (;;) {
      const ucc_status_t status = ucc_collective_test(request);
      if (status == UCC_OK) return;
      if (status != UCC_INPROGRESS) expect(status, "ucc_collective_test");
      static_cast<void>(ucc_context_progress(context_));
      if (yield_) sched_yield();
    }
  }

  // UCC meets through this; done at once, so there is nothing to test or free later.
  static ucc_status_t gather(void* mine, void* all, size_t bytes, void* self, void** request) {
    auto* out = static_cast<char*>(all);
    for (const std::string& text :
         static_cast<Ucc*>(self)->world_.gather(std::string(static_cast<char*>(mine), bytes))) {
      std::memcpy(out, text.data(), bytes);
      out += bytes;
    }
    *request = self;
    return UCC_OK;
  }
  static ucc_status_t done(void*) { return UCC_OK; }

  ucc_oob_coll_t meeting() {
    ucc_oob_coll_t oob = {};
    oob.allgather = gather;
    oob.req_test = done;
    oob.req_free = done;
    oob.coll_info = this;
    oob.n_oob_eps = static_cast<uint32_t>(size_);
    oob.oob_ep = static_cast<uint32_t>(rank_);
    return oob;
  }

  void openLibrary() {
    ucc_lib_config_h config = nullptr;
    expect(ucc_lib_config_read(nullptr, nullptr, &config), "ucc_lib_config_read");
    ucc_lib_params_t params = {};
    params.mask = UCC_LIB_PARAM_FIELD_THREAD_MODE;
    params.thread_mode = UCC_THREAD_SINGLE;
    expect(ucc_init(&params, config, &library_), "ucc_init");
    ucc_lib_config_release(config);
    ucc_context_config_h contextConfig = nullptr;
    expect(ucc_context_config_read(library_, nullptr, &contextConfig), "ucc_context_config_read");
    ucc_context_params_t contextParams = {};
    contextParams.mask = UCC_CONTEXT_PARAM_FIELD_OOB;
    contextParams.oob = meeting();
    expect(ucc_context_create(library_, &contextParams, contextConfig, &context_), "ucc_context_create");
    ucc_context_config_release(contextConfig);
  }

  void openTeam() {
    ucc_team_params_t params = {};
    params.mask = UCC_TEAM_PARAM_FIELD_EP | UCC_TEAM_PARAM_FIELD_EP_RANGE | UCC_TEAM_PARAM_FIELD_OOB;
    params.oob = meeting();
    params.ep = static_cast<uint64_t>(rank_);
    params.ep_range = UCC_COLLECTIVE_EP_RANGE_CONTIG;
    expect(ucc_team_create_post(&context_, 1, &params, &team_), "ucc_team_create_post");
    ucc_status_t status = UCC_INPROGRESS;
    while ((status = ucc_team_create_test(team_)) == UCC_INPROGRESS) {
      static_cast<void>(ucc_context_progress(context_));
      sched_yield();
    }
    expect(status, "ucc_team_create_test");
  }

  World& world_;
  int rank_, size_;
  bool yield_ = false;
  ucc_lib_h library_ = nullptr;
  ucc_context_h context_ = nullptr;
  ucc_team_h team_ = nullptr;
  ucc_coll_req_h barrier_ = nullptr, call_ = nullptr;
};

}  // namespace

std::unique_ptr<Adapter> makeAdapter(World& world) { return std::make_unique<Ucc>(world); }

}  // namespace tutti::compare
