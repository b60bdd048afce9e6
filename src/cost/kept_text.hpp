// Texts that are kept in a file for this machine and handed from rank to rank: a head with the kind and its version,
// whose machine it is, one line "key rest" per figure, and "end".
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "src/base/status.hpp"
#include "src/cost/machine_identity.hpp"

namespace tutti {

/// The shortest form that reads back the same.
std::string number(double value);

template <class T>
bool parseNumber(std::string_view text, T least, T most, T* out) {
  T value{};
  if (!parseNumber(text, &value) || !(value >= least && value <= most)) return false;  // a NaN fails here
  *out = value;
  return true;
}

/// One line's worth of what a system calls itself: what a file can hold and give back unchanged.
std::string printable(std::string text);

/// "cpu ...\ncores ...\nhost ...\n"
std::string machineLines(const MachineIdentity& machine);
bool isOfMachine(std::string_view key);
/// One of these lines; false: not understood.
bool parseMachineLine(std::string_view key, std::string_view rest, MachineIdentity* into);
/// Error: InvalidArgument if not all of them were there (before: cores is 0).
Status saysWhose(const MachineIdentity& machine);

/// Hands every line between the head and "end" to `line`.  Errors: InvalidArgument: another head, no end, or the number
/// of the line for which `line` said false.
Status parseKeptText(std::string_view text, const std::string& head,
                     const std::function<bool(std::string_view key, std::string_view rest)>& line);

// ---- In files.

/// The whole file.  Errors: SystemError (missing, cannot be read), InvalidArgument (no file, or longer than `most`;
/// both begin with `what` and the path).
Result<std::string> readKeptFile(const std::string& path, const char* what, size_t most);

/// Write beside `path`, then rename: readers see the old file or the new one, and of several writers one wins.  Folders
/// are made as needed.  The file is for its owner alone (0600).
Status writeKeptFile(const std::string& path, const std::string& text);

}  // namespace tutti
