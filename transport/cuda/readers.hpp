// Who has memory of another process open, as the memory's owner sees it.
//
// CUDA leaves it undefined what happens when memory is freed that another process has opened by an IPC handle, so
// owners have to know.  A reader locks a byte of a memfd of the owner's, the one of its rank's number, for as long as
// it has the memory open: unlike a count, the kernel takes a lock back when its process dies, and says whose it is.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "src/base/fd.hpp"
#include "src/device/host/shared_memory.hpp"

namespace tutti::cuda {

/// How an owner has closed memory to new readers.
enum class MemoryEnd : uint32_t {
  Open,    // it has not
  Idle,    // nothing reads the memory any more
  Failed,  // the communicator has failed: who has it open sees to it that nothing reads it, and closes it
};

/// The owner's side.  Any thread.
class Readers {
 public:
  /// What the owner has readers know, beside.
  static constexpr size_t kNoteBytes = 256;

  /// Errors: SystemError.
  static Result<std::shared_ptr<Readers>> create();
  Readers(const Readers&) = delete;
  Readers& operator=(const Readers&) = delete;

  /// What readers need.
  int descriptor() const { return fd_.get(); }
  /// kNoteBytes of memory that readers see; written before they get the descriptor.
  void* note() const;
  void end(MemoryEnd how) const;
  MemoryEnd ended() const;
  /// The lowest rank that has the memory open.
  std::optional<int> reader() const;

 private:
  Readers() = default;
  Fd fd_;
  Mapping shared_;
};

/// A reader's side.  One thread at a time, but for ended(), which is for any.
class Reading {
 public:
  Reading() = default;
  Reading(Reading&& other) noexcept = default;
  Reading& operator=(Reading&& other) noexcept;
  /// The memory is closed.
  ~Reading();

  /// descriptor: of Readers, as this process has got it.  Errors: RemoteError: it is none; SystemError.
  static Result<Reading> of(Fd descriptor);
  /// Before `rank` opens the memory.  Errors: RemoteError: the owner has closed it; SystemError.
  Status begin(int rank);
  const void* note() const;
  MemoryEnd ended() const;

 private:
  Fd given_, own_;
  Mapping shared_;
};

}  // namespace tutti::cuda
