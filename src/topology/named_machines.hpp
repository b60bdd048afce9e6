// Machines that go by a name: `hgx-h100` instead of the words of one_line.hpp.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tutti::topology {

struct NamedMachine {
  std::string_view name;
  std::string_view words;  // as one_line.hpp has them
  std::string_view parts;  // for people
  std::string_view source;
};

/// Grouped by generation of GPU.
std::span<const NamedMachine> namedMachines();
/// nullptr if there is none.
const NamedMachine* findNamedMachine(std::string_view name);
/// "dgx-2, dgx-a100, ...".
std::string namesOfMachines();

}  // namespace tutti::topology
