// How a call of NCCL is made: which release, what it was told, how it is launched.
#pragma once

#include <string>

namespace tutti::nccl_model {

struct Settings {
  int release = 230;       // 218 is 2.18; what it chooses by has changed
  int gpusPerProcess = 1;  // whose kernels one thread launches in turn: nccl-tests' -g
  bool alone = false;      // a call waits for the one before, and its launch counts, as under PyTorch's events
  bool sharp = false;      // switches between nodes that reduce, and a plugin that uses them
  std::string ways;        // only these, as ring,tree; all if empty (NCCL_ALGO)
  std::string protocols;   // only these (NCCL_PROTO)
};

/// What no part's source tells and measurements had to.  One value for all machines; `tutti-sim --validate` fits them
/// without the generation of GPUs that it compares with.
struct Fitted {
  /// The fences in a step of a Simple ring inside a node, in bytes that the block would move meanwhile.
  double drainBytes = 224.4e3;
  /// The share of LL128's rate of a channel that blocks reach if they also reduce.
  double reduceShare = 0.53;
  /// A call alone takes this much more than a call in a row: no earlier call hides PyTorch's way to the launch.
  double aloneUs = 26.85;
};

}  // namespace tutti::nccl_model
