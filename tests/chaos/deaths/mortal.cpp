#include "tests/chaos/deaths/mortal.hpp"

#include <dlfcn.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

namespace tutti::test {
namespace {

// Plain words: the calls below run in every thread, before main() and after it.
constinit std::atomic<int> callsLeft{0};  // 0: no call kills
constinit std::atomic<int> messages{0};
constinit std::atomic<bool> dying{false};
constinit std::atomic<int64_t>* diedAt = nullptr;
constinit std::atomic<int>* sentTill = nullptr;
constinit Death how = Death::Kill;
constinit void* volatile nowhere = nullptr;

[[noreturn]] void die(bool inTheLibrary) {
  while (dying.exchange(true)) ::pause();  // another thread is at it
  sentTill->store(messages.load());
  diedAt->store(nowUs());
  switch (how) {
    case Death::Kill: ::kill(::getpid(), SIGKILL); break;
    case Death::Exit: inTheLibrary ? ::_exit(3) : std::exit(3);
    case Death::Fault:
      ::signal(SIGSEGV, SIG_DFL);
      *static_cast<volatile int*>(nowhere) = 0;  // a true one: the library's threads block signals that are only sent
      break;
  }
  for (;;) ::pause();
}

void count() {
  if (callsLeft.load(std::memory_order_relaxed) > 0 && callsLeft.fetch_sub(1) == 1) die(true);
}

template <class F>
F* next(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

int64_t nowUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

const char* nameOf(Death death) {
  switch (death) {
    case Death::Kill: return "kill -9";
    case Death::Exit: return "exit";
    case Death::Fault: return "segmentation fault";
  }
  return "?";
}

void arm(const Fate& fate, std::atomic<int64_t>& died, std::atomic<int>& sent) {
  diedAt = &died;
  sentTill = &sent;
  how = fate.death;
  callsLeft.store(fate.calls);
  constexpr int kMostUs = 300'000;  // a rank that makes fewer calls dies all the same
  std::thread([us = fate.calls > 0 ? kMostUs : fate.afterUs] {
    std::this_thread::sleep_for(std::chrono::microseconds(us));
    die(false);
  }).detach();
}

}  // namespace tutti::test

#pragma GCC visibility push(default)  // so that the library finds them
extern "C" {

ssize_t send(int fd, const void* data, size_t bytes, int flags) {
  static auto* const real = tutti::test::next<decltype(send)>("send");
  tutti::test::count();
  const ssize_t n = real(fd, data, bytes, flags);
  if (n > 0) tutti::test::messages.fetch_add(1, std::memory_order_relaxed);
  return n;
}

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  static auto* const real = tutti::test::next<decltype(sendmsg)>("sendmsg");
  tutti::test::count();
  return real(fd, message, flags);
}

ssize_t recv(int fd, void* data, size_t bytes, int flags) {
  static auto* const real = tutti::test::next<decltype(recv)>("recv");
  tutti::test::count();
  return real(fd, data, bytes, flags);
}

ssize_t recvmsg(int fd, msghdr* message, int flags) {
  static auto* const real = tutti::test::next<decltype(recvmsg)>("recvmsg");
  tutti::test::count();
  return real(fd, message, flags);
}

int connect(int fd, const sockaddr* to, socklen_t bytes) {
  static auto* const real = tutti::test::next<int(int, const sockaddr*, socklen_t)>("connect");
  tutti::test::count();
  return real(fd, to, bytes);
}

int epoll_wait(int epoll, epoll_event* events, int most, int timeoutMs) {
  static auto* const real = tutti::test::next<decltype(epoll_wait)>("epoll_wait");
  const int n = real(epoll, events, most, timeoutMs);
  if (n > 0) tutti::test::count();
  return n;
}

}  // extern "C"
#pragma GCC visibility pop
