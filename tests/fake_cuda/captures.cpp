// Captures as recorded lists, and graphs of them.
#include <algorithm>

#include "tests/fake_cuda/streams.hpp"

namespace tutti::fake {

std::shared_ptr<CUgraph_st> captureOf(CUstream_st* stream) {
  const std::lock_guard lock(stream->mutex);
  return stream->capture;
}

bool wouldJoinCapture(Stream handle) {
  if (handle != nullptr && handle != kStreamLegacy) return false;
  const int device = deviceOf(currentContext());
  Streams& s = streams();
  const std::lock_guard lock(s.mutex);
  return std::any_of(s.live.begin(), s.live.end(), [&](CUstream_st* stream) {
    return stream->blocking && stream->device == device && captureOf(stream) != nullptr;
  });
}

Error cuStreamIsCapturing(Stream handle, int* status) {
  TUTTI_FAKE_ENTER(cuStreamIsCapturing);
  CUstream_st* stream = streamOf(handle);
  if (stream == nullptr) return kErrorInvalidHandle;
  if (wouldJoinCapture(handle)) return kErrorCaptureImplicit;
  *status = captureOf(stream) != nullptr ? kCaptureActive : kCaptureNone;
  return kSuccess;
}
Error cuStreamBeginCapture(Stream handle, int) {
  TUTTI_FAKE_ENTER(cuStreamBeginCapture);
  CUstream_st* stream = streamOf(handle);
  if (handle == nullptr || stream == nullptr) return kErrorInvalidHandle;
  const std::lock_guard lock(stream->mutex);
  stream->capture = std::make_shared<CUgraph_st>();
  ++capturesOfThread();
  return kSuccess;
}
Error cuStreamEndCapture(Stream handle, Graph* graph) {
  TUTTI_FAKE_ENTER(cuStreamEndCapture);
  CUstream_st* stream = streamOf(handle);
  const std::shared_ptr<CUgraph_st> captured = stream == nullptr ? nullptr : captureOf(stream);
  if (captured == nullptr) return kErrorInvalidHandle;
  --capturesOfThread();
  *graph = new CUgraph_st(*captured);
  const std::lock_guard lock(streams().mutex);
  for (CUstream_st* other : streams().live) {
    const std::lock_guard leaving(other->mutex);
    if (other->capture == captured) other->capture = nullptr;
  }
  return kSuccess;
}
Error cuGraphInstantiateWithFlags(GraphExec* exec, Graph graph, unsigned long long) {
  TUTTI_FAKE_ENTER(cuGraphInstantiateWithFlags);
  *exec = new CUgraphExec_st{std::make_shared<CUgraph_st>(*graph)};
  return kSuccess;
}
Error cuGraphLaunch(GraphExec exec, Stream stream) {
  TUTTI_FAKE_ENTER(cuGraphLaunch);
  return enqueue(stream, [graph = exec->graph] {
    for (const Work& work : graph->work) work();
  });
}
Error cuGraphExecDestroy(GraphExec exec) {
  TUTTI_FAKE_ENTER(cuGraphExecDestroy);
  delete exec;
  return kSuccess;
}
Error cuGraphDestroy(Graph graph) {
  TUTTI_FAKE_ENTER(cuGraphDestroy);
  delete graph;
  return kSuccess;
}

}  // namespace tutti::fake
