// The training layers for C++: the C calls, handles that free themselves, failures as exceptions.
#pragma once

#include <memory>
#include <stdexcept>
#include <type_traits>

#include "tutti/parallel/dp.h"
#include "tutti/parallel/ep.h"
#include "tutti/parallel/ft.h"
#include "tutti/parallel/grid.h"
#include "tutti/parallel/kernels.h"
#include "tutti/parallel/place.h"
#include "tutti/parallel/pp.h"
#include "tutti/parallel/ps.h"
#include "tutti/parallel/sp.h"
#include "tutti/parallel/sums.h"
#include "tutti/parallel/tp.h"
#include "tutti/parallel/zero.h"

namespace tutti {

/// A call of the training layers that failed; what() is the library's sentence.
class ParallelError : public std::runtime_error {
 public:
  explicit ParallelError(tuttiResult_t code) : std::runtime_error(tuttiParallelGetLastError()), code_(code) {}
  tuttiResult_t code() const { return code_; }

 private:
  tuttiResult_t code_;
};

/// Throws ParallelError unless result is tuttiSuccess.
inline void parallelTry(tuttiResult_t result) {
  if (result != tuttiSuccess) throw ParallelError(result);
}

/// Owns a C handle; get() is for the C calls.  Handles whose destruction is collective go on all ranks in one order.
template <auto Destroy, class Handle>
class ParallelHandle {
 public:
  /// make is a tutti...Create; arguments are its own, after the handle.
  template <class Make, class... Arguments>
  explicit ParallelHandle(Make make, Arguments&&... arguments) {
    Handle made = nullptr;
    parallelTry(make(&made, std::forward<Arguments>(arguments)...));
    handle_.reset(made);
  }
  Handle get() const { return handle_.get(); }

 private:
  struct End {
    void operator()(Handle handle) const { Destroy(handle); }
  };
  std::unique_ptr<std::remove_pointer_t<Handle>, End> handle_;
};

using Grid = ParallelHandle<tuttiGridDestroy, tuttiGrid_t>;  // Grid grid(tuttiGridCreate, world, "tp=2,dp=0", nullptr)
using Tp = ParallelHandle<tuttiTpDestroy, tuttiTp_t>;        // Tp tp(tuttiTpCreate, comm, &config)
using Linear =
    ParallelHandle<tuttiLinearDestroy, tuttiLinear_t>;  // Linear w(tuttiColumnLinearCreate, tp.get(), &config)
using Ddp = ParallelHandle<tuttiDdpDestroy, tuttiDdp_t>;
using Schedule = ParallelHandle<tuttiScheduleDestroy, tuttiSchedule_t>;
using Pipeline = ParallelHandle<tuttiPipelineDestroy, tuttiPipeline_t>;
using Sp = ParallelHandle<tuttiSpDestroy, tuttiSp_t>;
using Ep = ParallelHandle<tuttiEpDestroy, tuttiEp_t>;
using Place = ParallelHandle<tuttiPlaceDestroy, tuttiPlace_t>;  // Place place(tuttiPlaceCreate, TUTTI_DEVICE_CUDA)
using Mirror = ParallelHandle<tuttiMirrorDestroy, tuttiMirror_t>;
using Pace = ParallelHandle<tuttiPaceDestroy, tuttiPace_t>;
using Ps = ParallelHandle<tuttiPsDestroy, tuttiPs_t>;
using Zero = ParallelHandle<tuttiZeroDestroy, tuttiZero_t>;

}  // namespace tutti
