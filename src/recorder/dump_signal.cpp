#include "src/recorder/dump_signal.hpp"

#include <sched.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>

#include "src/base/config.hpp"
#include "src/base/log.hpp"
#include "src/base/text.hpp"
#include "src/recorder/flight_recorder.hpp"

namespace tutti {
namespace {

struct Name {
  const char* text;
  int number;
};
constexpr Name kSignals[] = {{"HUP", SIGHUP}, {"QUIT", SIGQUIT}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2}};

std::array<std::atomic<FlightRecorder*>, 1024> recorders;
std::atomic<int> handlersAtWork{0};
struct sigaction handlerBefore;

void callHandlerBefore(int number, siginfo_t* info, void* context) {
  if ((handlerBefore.sa_flags & SA_SIGINFO) != 0) {
    if (handlerBefore.sa_sigaction != nullptr) handlerBefore.sa_sigaction(number, info, context);
  } else if (handlerBefore.sa_handler != SIG_DFL && handlerBefore.sa_handler != SIG_IGN) {
    handlerBefore.sa_handler(number);
  }
}

void onSignal(int number, siginfo_t* info, void* context) {
  const int error = errno;
  handlersAtWork.fetch_add(1, std::memory_order_seq_cst);  // partner: forgetRecorder()
  for (const std::atomic<FlightRecorder*>& place : recorders) {
    const FlightRecorder* const recorder = place.load(std::memory_order_seq_cst);
    if (recorder != nullptr) (void)recorder->write(recorder->dumpPath().c_str(), "a signal asked for it");
  }
  handlersAtWork.fetch_sub(1, std::memory_order_seq_cst);
  callHandlerBefore(number, info, context);
  errno = error;
}

Status installHandler(int number) {
  static auto* const mutex = new std::mutex;
  static int installed = 0;
  const std::lock_guard lock(*mutex);
  if (installed == number) return {};
  if (installed != 0)
    return invalidUsage(ErrorCode::DumpSignal, "TUTTI_DUMP_SIGNAL is ", number,
                        ", but this process has dumped at signal ", installed,
                        " since its first communicator; a process has one");
  struct sigaction action {};
  action.sa_sigaction = onSignal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigfillset(&action.sa_mask);
  if (sigaction(number, nullptr, &handlerBefore) != 0 || sigaction(number, &action, nullptr) != 0)
    return invalidUsage(ErrorCode::DumpSignal, "TUTTI_DUMP_SIGNAL: cannot handle signal ", number, ": ",
                        std::strerror(errno));
  installed = number;
  return {};
}

}  // namespace

Result<int> parseDumpSignal(const std::string& name) {
  const std::string text = name.starts_with("SIG") ? name.substr(3) : name;
  int64_t number = 0;
  if (text.starts_with("RTMIN+") && parseNumber(text.substr(6), &number) && number >= 0)
    number += SIGRTMIN;
  else if (!parseNumber(text, &number))
    number = -1;
  for (const Name& signal : kSignals) {
    if (text == signal.text || number == signal.number) return signal.number;
  }
  if (number >= SIGRTMIN && number <= SIGRTMAX) return static_cast<int>(number);
  return invalidUsage(ErrorCode::DumpSignal, "TUTTI_DUMP_SIGNAL='", name,
                      "' is none of HUP, QUIT, USR1, USR2 and RTMIN+0 to RTMIN+", SIGRTMAX - SIGRTMIN,
                      "; set one of them");
}

Status dumpOnSignal(FlightRecorder* recorder) {
  const std::string name = configText("TUTTI_DUMP_SIGNAL");
  if (name.empty()) return {};
  TUTTI_ASSIGN(const int number, parseDumpSignal(name));
  TUTTI_TRY(installHandler(number));
  for (std::atomic<FlightRecorder*>& place : recorders) {
    FlightRecorder* none = nullptr;
    if (place.compare_exchange_strong(none, recorder)) return {};
  }
  TUTTI_WARN("trace", "more than ", recorders.size(), " communicators: TUTTI_DUMP_SIGNAL leaves out the newest");
  return {};
}

void forgetRecorder(const FlightRecorder* recorder) {
  bool there = false;
  for (std::atomic<FlightRecorder*>& place : recorders) {
    auto* mine = const_cast<FlightRecorder*>(recorder);
    there = place.compare_exchange_strong(mine, nullptr, std::memory_order_seq_cst) || there;
  }
  while (there && handlersAtWork.load(std::memory_order_seq_cst) > 0) sched_yield();
}

}  // namespace tutti
