// Exceptions of the standard library as a Status: memory that has run out, a thread that cannot be had.  Nothing else
// throws in here.
#pragma once

#include <exception>
#include <new>

#include "src/base/status.hpp"

namespace tutti {

inline Status noMemory() { return systemError(ErrorCode::NoMemory, "there is no memory left for this process"); }

/// Of the exception that is being handled.  May throw one itself.
inline Status thrownStatus() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return noMemory();
  } catch (const std::exception& error) {
    return systemError(ErrorCode::LibraryException, error.what());
  }
}

/// What `body` gives, a Status or a Result.
template <class Body>
auto caught(const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception&) {
    return thrownStatus();
  }
}

}  // namespace tutti
