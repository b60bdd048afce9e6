// Calls of CUDA ranks as NVTX ranges, which Nsight Systems draws beside what the device does.
#pragma once

namespace tutti {

/// The calling thread's; each begin has an end on the same thread.  Nothing without a tool that listens, or where NVTX
/// was not there at build time.
void beginRange(const char* name);
void endRange();

/// A range as long as it lives.
class CallRange {
 public:
  /// isOn: else there is none.  function: as in the API, without its prefix.
  CallRange(bool isOn, const char* function) : isOn_(isOn) {
    if (isOn_) beginRange(function);
  }
  ~CallRange() {
    if (isOn_) endRange();
  }
  CallRange(const CallRange&) = delete;
  CallRange& operator=(const CallRange&) = delete;

 private:
  bool isOn_;
};

}  // namespace tutti
