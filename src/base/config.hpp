// Every configuration variable of Tutti: one table with name, default, unit and meaning.
//
// A value that cannot be understood is an error that says why; it is never dropped in silence.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.hpp"

namespace tutti {

enum class VariableKind { Text, Integer, Bytes, Flag };

struct Variable {
  const char* name;
  VariableKind kind;
  const char* defaultValue;  // as a user would write it; "" is unset
  const char* unit;          // "ms", "bytes", ""
  const char* meaning;
};

/// Whether its value is known to the ranks of one job alone: nothing prints it.
bool isSecret(std::string_view name);

/// All variables, in the order in which `tutti-info --config` prints them.
std::span<const Variable> variables();

/// The value of one variable as text: the environment's, else setDefault()'s, else the table's default.  The name must
/// be in the table.
std::string configText(std::string_view name);
/// Of a variable that takes one of a few words: the place of its word among them.  Errors: InvalidUsage naming both.
Result<size_t> configChoice(std::string_view name);
/// Whether the environment or setDefault() sets it; else the default may be left to whoever knows better.
bool configIsSet(std::string_view name);
/// Whether a variable of the table can have this value, as far as is known here: kind, range, and the texts that this
/// room reads itself.  What names of other rooms mean src/comm/variables.hpp checks.  Errors: InvalidUsage naming both.
Status checkValue(std::string_view name, const std::string& value);
/// What `name` is where the environment does not set it; nullptr: the table's default again.  Any thread.
/// Process-wide, as the environment is.  Errors: InvalidArgument: no such variable, one that is looked for in
/// environments alone (of launchers, of tutti-info), or a value that checkValue() refuses.
Status setDefault(std::string_view name, const char* value);
/// As a number (Integer), bytes (Bytes: 64K, 1M) or 0/1 (Flag).  Errors: InvalidUsage naming variable and value.
Result<int64_t> configInteger(std::string_view name);

/// A sentence for each name in the environment that begins with TUTTI_ and is no variable: likely a typo.
std::vector<std::string> unknownVariables();

/// checkValue() of all variables as they are set, and a warning for each unknown TUTTI_* name in the environment, which
/// is likely a typo.
Status checkConfig();

}  // namespace tutti
