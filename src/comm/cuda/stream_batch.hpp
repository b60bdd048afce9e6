// The calls of a rank on a CUDA device: what they follow and what follows them is on streams.
#pragma once

#include <optional>

#include "src/comm/cuda/executor.hpp"
#include "src/comm/launch.hpp"

namespace tutti {

class StreamBatch : public Batch {
 public:
  /// executor: of comm; borrowed.
  StreamBatch(Comm& comm, CudaExecutor& executor) : Batch(comm), executor_(executor) {}

  void add(const Call& call, tuttiStream_t stream) override;
  Result<bool> submit(const Replay& replay) override;
  void replay() override { job_.emplace(); }
  void finish() override;
  void clear() override;
  /// Its streams know of it.
  bool mayBeDropped() const override { return false; }
  Result<bool> start() override;
  Task* task() override;
  /// A call's streams differ, and have to be told of it each time.
  void remember() override {}
  Result<Progress> step() override;
  bool awaitsDevice() const override;
  void abandon() override;
  bool abandoned() override;

 private:
  void beginNext() override;
  bool goesByKernels(const Call& call) override;
  /// They wait for more than links.
  bool mayHaveOpened() override { return true; }
  void learn(const Call&, const PointToPointOp&, const CallRecord&) override {}
  void beginPasses();
  Result<bool> streamsCame();

  CudaExecutor& executor_;
  std::vector<cuda::Stream> streams_;  // of the calls, each once
  Status submitted_;
  std::optional<CudaProxy::Submitted> job_;  // after submit()
  Deadline leaving_ = Deadline::never();     // of that, after abandon()
  ResidentExecutor* kernels_ = nullptr;      // what carries out collectives, if streams do not
};

}  // namespace tutti
