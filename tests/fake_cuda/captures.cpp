// Captures: streams that record instead of working, and what is forbidden meanwhile.
#include "tests/fake_cuda/captures.hpp"

#include <algorithm>
#include <set>

namespace tutti::fake {
namespace {

/// Guarded by captureMutex().
std::set<std::shared_ptr<Capture>>& captures() {
  static auto& all = *new std::set<std::shared_ptr<Capture>>;
  return all;
}

struct Mode {
  int now = kCaptureModeGlobal;
  ~Mode() {
    if (now != kCaptureModeGlobal) complain("a thread ends in another capture mode than it began with");
  }
};
int& modeOfThread() {
  static thread_local Mode mode;
  return mode.now;
}

bool isMode(int mode) { return mode >= kCaptureModeGlobal && mode <= kCaptureModeRelaxed; }

/// Whether potentially unsafe calls of this thread break the capture.
bool forbids(const Capture& capture) {
  const bool own = capture.thread == std::this_thread::get_id();
  if (modeOfThread() == kCaptureModeRelaxed) return false;
  if (own) return capture.mode != kCaptureModeRelaxed;
  return modeOfThread() == kCaptureModeGlobal && capture.mode == kCaptureModeGlobal;
}

/// Whether all that other streams have recorded comes before what the first one would record next.
bool isJoined(const Capture& capture) {
  const auto origin = capture.known.find(capture.origin);
  return std::all_of(capture.known.begin(), capture.known.end(), [&](const auto& entry) {
    const auto& [stream, before] = entry;
    const auto own = before.find(stream);
    if (own == before.end() || stream == capture.origin) return true;
    const auto seen = origin == capture.known.end() ? own : origin->second.find(stream);
    return origin != capture.known.end() && seen != origin->second.end() && seen->second >= own->second;
  });
}

Error whyNotEnded(const Capture& capture, const CUstream_st* stream) {
  if (capture.origin != stream) return kErrorCaptureUnmatched;
  if (capture.mode != kCaptureModeRelaxed && capture.thread != std::this_thread::get_id()) {
    return kErrorCaptureWrongThread;
  }
  return kSuccess;
}

/// With the lock: streams that recorded go on as others.
void leave(const std::shared_ptr<Capture>& capture) {
  capture->ended = true;
  captures().erase(capture);
  const std::lock_guard lock(streams().mutex);
  for (CUstream_st* stream : allStreams()) {
    if (stream->capture == capture) stream->capture = nullptr;
  }
}

}  // namespace

std::mutex& captureMutex() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}

std::shared_ptr<Capture> captureOf(const CUstream_st* stream) { return stream->capture; }

bool isCapturing(const CUstream_st* stream) {
  const std::lock_guard lock(captureMutex());
  return stream->capture != nullptr;
}

bool captureForbids(const char* call) {
  bool forbidden = false;
  {
    const std::lock_guard lock(captureMutex());
    for (const auto& capture : captures()) {
      if (!forbids(*capture)) continue;
      capture->broken = forbidden = true;
    }
  }
  if (forbidden) complain(std::string(call) + " is made while a stream is captured, which that forbids");
  return forbidden;
}

bool breakCapturesOn(int device) {
  const std::lock_guard lock(captureMutex());
  bool any = false;
  for (const auto& capture : captures()) {
    if (capture->origin->device != device) continue;
    capture->broken = any = true;
  }
  return any;
}

bool breakCaptureOf(const CUstream_st* stream) {
  const std::lock_guard lock(captureMutex());
  if (stream->capture == nullptr) return false;
  stream->capture->broken = true;
  return true;
}

bool wouldJoinCapture(Stream handle, bool breaks) {
  if (handle != nullptr && handle != kStreamLegacy) return false;
  const int device = deviceOf(currentContext());
  const std::lock_guard lock(captureMutex());
  const std::lock_guard all(streams().mutex);
  bool any = false;
  for (CUstream_st* stream : streams().live) {
    if (!stream->blocking || stream->device != device || stream->capture == nullptr) continue;
    any = true;
    stream->capture->broken = stream->capture->broken || breaks;
  }
  return any;
}

Error record(CUstream_st* stream, Work* work) {
  const std::lock_guard lock(captureMutex());
  const auto& capture = stream->capture;
  if (capture == nullptr) return kErrorNotFound;
  if (capture->broken) return kErrorCaptureInvalidated;
  capture->graph.work.push_back(std::move(*work));
  ++capture->known[stream][stream];
  return kSuccess;
}

Error cuThreadExchangeStreamCaptureMode(int* mode) {
  TUTTI_FAKE_ENTER(cuThreadExchangeStreamCaptureMode);
  if (!isMode(*mode)) return kErrorInvalidValue;
  std::swap(modeOfThread(), *mode);
  return kSuccess;
}

Error cuStreamIsCapturing(Stream handle, int* status) {
  TUTTI_FAKE_ENTER(cuStreamIsCapturing);
  const CUstream_st* stream = streamOf(handle);
  if (stream == nullptr) return noStream(handle);
  if (wouldJoinCapture(handle, false)) return kErrorCaptureImplicit;
  const std::lock_guard lock(captureMutex());
  *status = stream->capture == nullptr ? kCaptureNone : stream->capture->broken ? kCaptureInvalidated : kCaptureActive;
  return kSuccess;
}
Error cuStreamGetCaptureInfo(Stream handle, int* status, uint64_t* number) {
  TUTTI_FAKE_ENTER(cuStreamGetCaptureInfo);
  if (const Error error = cuStreamIsCapturing(handle, status); error != kSuccess) return error;
  const std::lock_guard lock(captureMutex());
  if (*status == kCaptureActive && number != nullptr) *number = streamOf(handle)->capture->number;
  return kSuccess;
}
Error cuStreamBeginCapture(Stream handle, int mode) {
  TUTTI_FAKE_ENTER(cuStreamBeginCapture);
  if (handle == nullptr || handle == kStreamLegacy) return kErrorCaptureUnsupported;
  CUstream_st* stream = streamOf(handle);
  if (stream == nullptr) return noStream(handle);
  if (!isMode(mode)) return kErrorInvalidValue;
  static uint64_t made = 0;
  const std::lock_guard lock(captureMutex());
  if (stream->capture != nullptr) return kErrorInvalidValue;
  const auto capture = std::make_shared<Capture>();
  capture->origin = stream;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->number = ++made;
  captures().insert(stream->capture = capture);
  return kSuccess;
}
Error cuStreamEndCapture(Stream handle, Graph* graph) {
  TUTTI_FAKE_ENTER(cuStreamEndCapture);
  const CUstream_st* stream = streamOf(handle);
  if (stream == nullptr) return noStream(handle);
  const std::lock_guard lock(captureMutex());
  const std::shared_ptr<Capture> capture = captureOf(stream);
  if (capture == nullptr) return kErrorInvalidValue;
  if (const Error error = whyNotEnded(*capture, stream); error != kSuccess) {
    capture->broken = true;
    return error;
  }
  leave(capture);
  *graph = nullptr;
  if (capture->broken) return kErrorCaptureInvalidated;
  if (!isJoined(*capture)) return kErrorCaptureUnjoined;
  *graph = new CUgraph_st(capture->graph);
  return kSuccess;
}

}  // namespace tutti::fake
