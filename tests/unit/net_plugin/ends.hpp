// Both ends of a connection over libnccl-net-tutti.so, called as NCCL calls it: by version 12 of its interface.
#pragma once

#include <dlfcn.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "src/base/clock.hpp"
#include "tests/support/variable.hpp"
#include "transport/ncclnet/abi.hpp"

namespace tutti::test {

using namespace ncclnet;
using Net12 = Table<Types12>;
inline constexpr Code kInvalidArgument = 4, kRemoteError = 6;

/// What the plugin has warned of since it was last asked.
inline std::string& warned() {
  static std::string all;
  return all;
}
inline std::mutex& warning() {
  static std::mutex mutex;
  return mutex;
}
inline std::string takeWarnings() {
  const std::lock_guard lock(warning());
  return std::exchange(warned(), "");
}
inline void hear(int level, unsigned long, const char*, int, const char* format, ...) {
  if (level != 2) return;
  std::array<char, 1024> text;
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  const std::lock_guard lock(warning());
  warned() += std::string(text.data()) + "\n";
}

inline const void* netPluginTable(const char* symbol) {
  void* const library = dlopen(TUTTI_NET_PLUGIN_FILE, RTLD_NOW | RTLD_LOCAL);
  return library != nullptr ? dlsym(library, symbol) : nullptr;
}
inline const Net12& net12() { return *static_cast<const Net12*>(netPluginTable("ncclNetPlugin_v12")); }

inline Code noEvent(void**, int, void*, int64_t, void*) { return kSuccess; }

struct Message {
  std::vector<char> data;
  int tag = 0;
};

/// A listener, and what came of it.
class Ends {
 public:
  Ends() : net(net12()) {
    const Code code = net.init(&context_, 7, &config_, hear, noEvent);
    if (code != kSuccess) throw std::runtime_error("init: " + takeWarnings());
    if (net.listen(context_, 0, handle.data(), &listen_) != kSuccess)
      throw std::runtime_error("listen: " + takeWarnings());
  }
  ~Ends() {
    closeSend();
    closeReceive();
    if (listen_ != nullptr) net.closeListen(listen_);
    net.finalize(context_);
  }
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;

  /// Both calls in turn until both ends are there; the first code that is none.
  Code connect() {
    const Deadline deadline = Deadline::inMs(20'000);
    while ((send == nullptr || receive == nullptr) && !deadline.passed()) {
      void* none = nullptr;
      if (send == nullptr) {
        const Code code = net.connect(context_, 0, handle.data(), &send, &none);
        if (code != kSuccess) return code;
      }
      if (receive == nullptr) {
        const Code code = net.accept(listen_, &receive, &none);
        if (code != kSuccess) return code;
      }
    }
    return send != nullptr && receive != nullptr ? kSuccess : -1;
  }
  void* context() const { return context_; }
  void* listener() const { return listen_; }
  void closeSend() {
    if (send != nullptr) net.closeSend(std::exchange(send, nullptr));
  }
  void closeReceive() {
    if (receive != nullptr) net.closeRecv(std::exchange(receive, nullptr));
  }

  Code isend(const Message& message, void** request) {
    return net.isend(send, const_cast<char*>(message.data.data()), message.data.size(), message.tag, nullptr, nullptr,
                     request);
  }
  Code irecv(std::vector<Message>& into, void** request) {
    std::vector<void*> data, memory(into.size()), events(into.size());
    std::vector<size_t> bytes;
    std::vector<int> tags;
    for (Message& one : into) {
      data.push_back(one.data.data());
      bytes.push_back(one.data.size());
      tags.push_back(one.tag);
    }
    *request = nullptr;
    return net.irecv(receive, static_cast<int>(into.size()), data.data(), bytes.data(), tags.data(), memory.data(),
                     events.data(), request);
  }
  /// Tests the two until both are done; null is done.  The first code that is none.
  Code finish(void* a, void* b, int* bytes = nullptr) {
    const Deadline deadline = Deadline::inMs(20'000);
    while ((a != nullptr || b != nullptr) && !deadline.passed()) {
      for (void** const one : {&a, &b}) {
        if (*one == nullptr) continue;
        int done = 0;
        const Code code = net.test(*one, &done, one == &b ? bytes : nullptr);
        if (code != kSuccess) return code;
        if (done != 0) *one = nullptr;
      }
    }
    return a == nullptr && b == nullptr ? kSuccess : -1;
  }

  const Net12& net;
  std::array<std::byte, kHandleBytes> handle{};
  void* send = nullptr;
  void* receive = nullptr;

 private:
  Variable transport_{"TUTTI_PLUGIN_TRANSPORT", "tcp"};
  Variable interface_{"TUTTI_SOCKET_IFNAME", "=lo"};
  CommConfig config_;
  void* context_ = nullptr;
  void* listen_ = nullptr;
};

}  // namespace tutti::test
