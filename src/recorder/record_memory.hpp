// The memory of a flight recorder: a header and records, in pages of the process's own or in those of a file.
#pragma once

#include <string>

#include "src/base/status.hpp"
#include "src/recorder/record.hpp"

namespace tutti {

/// Owns the mapping.
class RecordMemory {
 public:
  RecordMemory() = default;
  RecordMemory(RecordMemory&& other) noexcept;
  RecordMemory& operator=(RecordMemory&& other) noexcept;
  ~RecordMemory();

  /// Zeroed room for so many records.  Errors: SystemError.
  static Result<RecordMemory> inPages(size_t numRecords);
  /// The same in a new file, which has all its blocks: a full disk is an error here, and no signal later.  Whatever
  /// ends the process, what was written stays.  Errors: SystemError naming the file.
  static Result<RecordMemory> inFile(const std::string& path, size_t numRecords);

  FileHeader* header() const { return static_cast<FileHeader*>(base_); }
  void* records() const { return static_cast<char*>(base_) + sizeof(FileHeader); }
  explicit operator bool() const { return base_ != nullptr; }

 private:
  void* base_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace tutti
