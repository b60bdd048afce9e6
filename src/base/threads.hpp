// Threads of this process: the library's own, and the program's.
#pragma once

#include <functional>
#include <new>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/caught.hpp"

namespace tutti {

/// "cannot start a thread for <what>: ..." with the text of `error`, an errno, and the limits that may be reached.
Status noThread(std::string_view what, int error);

/// A thread that runs `body`.  what: see noThread().
/// Errors: SystemError: the system gives no thread, or there is no memory for it; body is gone, and has not run.
template <class Body>
Result<std::thread> startThread(std::string_view what, Body&& body) {
  try {
    return std::thread(std::forward<Body>(body));
  } catch (const std::system_error& error) {
    return noThread(what, error.code().value());
  } catch (const std::bad_alloc&) {
    return noMemory();
  }
}

/// Runs all tasks at once, each on a thread of its own but for the first, which has the caller's.  Returns when all are
/// over, with what each gave.  what: see noThread().
/// Errors: SystemError: not all of the threads can be had.  None of the tasks has run then: they may wait for each
/// other.
Result<std::vector<Status>> runTogether(std::string_view what, const std::vector<std::function<Status()>>& tasks);

/// The calling thread is the library's own: it makes no calls of the program's.  name: at most 15 characters, "tutti-"
/// first.
void nameOwnThread(const char* name);

/// Whether all threads but one are the library's own: what that one does not do, nobody does.  Counts threads of other
/// libraries as the program's.  False, too, where it cannot be known.
bool hasOneProgramThread();

}  // namespace tutti
