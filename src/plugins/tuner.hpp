// A tuner plugin that has been loaded for one communicator.
#pragma once

#include <memory>
#include <string>

#include "src/base/status.hpp"
#include "src/plugins/tuner_abi.hpp"

namespace tutti::tuner {

/// The communicator that a plugin is told of.
struct Subject {
  uint64_t number = 0;
  size_t nRanks = 1;
  size_t nNodes = 1;
  int leastRanksOfNode = 1, mostRanksOfNode = 1;
};

/// One thread at a time.
class Tuner {
 public:
  /// plugin: as TUTTI_TUNER_PLUGIN.  Null where that is empty or "none".
  /// Errors: InvalidUsage: a sentence that says what was looked for, and what to do.
  static Result<std::unique_ptr<Tuner>> open(const std::string& plugin, const Subject& subject);
  virtual ~Tuner() = default;

  virtual const char* name() const = 0;
  /// Lets the plugin change what the ways of a call cost; kIgnored stays what cannot be had.  Gives the number of
  /// channels that it wants, 0: any.  Errors: InvalidUsage: the plugin failed; the table is not to be used.
  Result<int> ask(Function function, size_t bytes, CostTable* table);

 protected:
  virtual Code getCollInfo(Function function, size_t bytes, float** table, int* nChannels) = 0;
};

}  // namespace tutti::tuner
