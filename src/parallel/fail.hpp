// Errors inside the training layers are exceptions; each C entry point turns them into a tuttiResult_t and a sentence.
#pragma once

#include <new>
#include <sstream>
#include <string>

#include "tutti/parallel/base.h"

namespace tutti::parallel {

struct Failure {
  tuttiResult_t code;
  std::string text;
};

/// The code of the kind is put behind it, unless the text of a call of tutti.h in it has one.
void setLastError(tuttiResult_t result, std::string text);

template <class... Parts>
std::string joined(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

template <class... Parts>
[[noreturn]] void fail(tuttiResult_t code, const Parts&... parts) {
  throw Failure{code, joined(parts...)};
}

/// Throws tuttiInvalidArgument with the sentence unless condition holds.
template <class... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) fail(tuttiInvalidArgument, parts...);
}

/// Throws what a call of tutti.h on `comm` failed with.
inline void check(tuttiResult_t result, tuttiComm_t comm) {
  if (result != tuttiSuccess) throw Failure{result, tuttiGetLastError(comm)};
}

/// The body of a C entry point.
template <class Body>
tuttiResult_t guarded(const Body& body) noexcept {
  try {
    body();
    return tuttiSuccess;
  } catch (const Failure& failure) {
    setLastError(failure.code, failure.text);
    return failure.code;
  } catch (const std::bad_alloc&) {
    setLastError(tuttiSystemError, "out of memory");
    return tuttiSystemError;
  } catch (const std::exception& error) {
    setLastError(tuttiInternalError, error.what());
    return tuttiInternalError;
  }
}

/// The same where the call makes no sense unless `holds`: else tuttiInvalidArgument with the sentence.
template <class Body>
tuttiResult_t guardedIf(bool holds, const char* sentence, const Body& body) noexcept {
  return guarded([&] {
    require(holds, sentence);
    body();
  });
}

/// A caller's config struct, of whatever version, over the defaults of this one.
template <class Config>
Config takeConfig(const Config* theirs, const Config& defaults, const char* what) {
  Config mine = defaults;
  if (theirs == nullptr) return mine;
  require(theirs->size >= sizeof(size_t) && theirs->size <= 4096, what, ".size is ", theirs->size,
          "; begin from its _INITIALIZER");
  const size_t known = theirs->size < sizeof(Config) ? theirs->size : sizeof(Config);
  __builtin_memcpy(&mine, theirs, known);
  mine.size = sizeof(Config);
  return mine;
}

/// Writes as much of `mine` as the caller's struct, of whatever version, has room for.
template <class Struct>
void giveStruct(const Struct& mine, Struct* theirs) {
  const size_t size = theirs->size;
  __builtin_memcpy(theirs, &mine, size < sizeof(Struct) ? size : sizeof(Struct));
  theirs->size = size;
}

}  // namespace tutti::parallel
